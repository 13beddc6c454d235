"""Single episodes: lists by filter and page, neighbours, attempts, pieces of texts, tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.store import episode_queries as queries
from agentgym_cli.store.db import Connection
from agentgym_cli.store.episode_rows import SORTS, AttemptKey, EpisodeFilter, Parting, Sort
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import Record, TokensRecord
from tests.store.builders import make_attempt, make_outcome, make_run, make_scheduled, make_segment, make_turn, settled, write_journal
from tests.store.conftest import empty

OUTCOMES = ("success", "failure", "infra_error", "missing") * 5
KEY = AttemptKey(run="r1", segment=1, episode="eval/test/0/textcraft_0/0", attempt=1)


def _records() -> list[Record]:
    """Twenty episodes of two steps; the first has tokens and texts of its own."""
    records: list[Record] = [make_run(), make_segment()]
    for number, outcome in enumerate(OUTCOMES):
        step = number // 10
        scheduled = make_scheduled(number, step=step, category=f"depth {number % 3}", horizon=6 + 3 * step)
        records += settled(scheduled, outcome, turns=1 + number % 4) if number else _first()
    return records


def _first() -> list[Record]:
    scheduled = make_scheduled(0)
    turns = (make_turn(1, observation="A Needle\u00c9 here"), make_turn(2, text="0123456789", action="say it"))
    tokens = TokensRecord(token_ids=(5, 6, 7), action_mask=(False, True, True), logprobs=(0.0, -0.5, -0.25))
    attempt = replace(make_attempt(scheduled, "success"), turns=turns, tokens=tokens, final_observation="the end")
    return [scheduled, attempt, make_outcome(attempt)]


@pytest.fixture(scope="module")
def played(migrated: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    load_into(migrated, write_journal(tmp_path_factory.mktemp("runs") / "r1", _records()))
    yield migrated
    empty(migrated)


def names(found: Sequence[object]) -> list[int]:
    return [int(str(getattr(row, "task")).removeprefix("textcraft_")) for row in found]  # noqa: B009


def all_of(connection: Connection, wanted: EpisodeFilter) -> list[int]:
    return sorted(names(queries.episode_page(connection, "r1", wanted).rows))


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        (EpisodeFilter(), range(20)),
        (EpisodeFilter(outcome="failure"), range(1, 20, 4)),
        (EpisodeFilter(outcome="missing"), range(3, 20, 4)),
        (EpisodeFilter(stop="env_error", cause="server_5xx"), range(2, 20, 4)),
        (EpisodeFilter(cause="timeout"), []),
        (EpisodeFilter(task="textcraft_7"), [7]),
        (EpisodeFilter(category="depth 1"), [0, *range(1, 20, 3)]),
        (EpisodeFilter(step=1, outcome="success"), [12, 16]),
        (EpisodeFilter(horizon=9), range(10, 20)),
        (EpisodeFilter(phase="train"), []),
        (EpisodeFilter(split="test", reward_from=0.5), range(0, 20, 4)),
        (EpisodeFilter(reward_to=0.5), range(1, 20, 4)),
        (EpisodeFilter(turns_from=3, turns_to=3), range(2, 20, 4)),
        (EpisodeFilter(text="needle\u00e9"), [0]),
        (EpisodeFilter(text="THE END"), [0]),
        (EpisodeFilter(text="%"), []),
        (EpisodeFilter(text="get 1 log", outcome="success", step=0), [0, 4, 8]),
    ],
)
def test_a_filter_lets_through_what_it_says(played: Connection, wanted: EpisodeFilter, meant: Sequence[int]) -> None:
    assert all_of(played, wanted) == list(meant)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", SORTS)
def test_pages_forward_and_back_hold_every_episode_once(played: Connection, sort: Sort, descending: bool) -> None:
    def page(**words: str) -> list[str]:
        found = queries.episode_page(played, "r1", EpisodeFilter(), sort=sort, descending=descending, most=6, **words)  # type: ignore[arg-type]
        assert (found.total, found.before) == (20, len(seen) if not words or "after" in words else found.before)
        return [row.episode for row in found.rows]

    seen: list[str] = []
    seen += page()
    while more := page(after=seen[-1]):
        seen += more
    assert len(seen) == len(set(seen)) == 20
    assert page(before=seen[12]) == seen[6:12]
    for place in (0, 7, 19):
        around = queries.neighbours(played, "r1", seen[place], EpisodeFilter(), sort=sort, descending=descending)
        assert (around.previous, around.next) == (seen[place - 1] if place else None, seen[place + 1] if place < 19 else None)
        assert (around.place, around.total) == (place + 1, 20)


def test_episodes_are_sorted_by_what_is_asked(played: Connection) -> None:
    rows = queries.episode_page(played, "r1", EpisodeFilter(), sort="turns", descending=True).rows
    assert [row.turns or -1 for row in rows] == sorted((row.turns or -1 for row in rows), reverse=True)
    assert names(queries.episode_page(played, "r1", EpisodeFilter()).rows) == list(range(20))


def test_the_next_failure_is_one_and_the_filter_holds(played: Connection) -> None:
    around = queries.neighbours(played, "r1", "eval/test/0/textcraft_6/0", EpisodeFilter(step=0), sort="schedule", descending=False)
    assert (around.previous_failure, around.next_failure) == ("eval/test/0/textcraft_5/0", "eval/test/0/textcraft_9/0")
    last = queries.neighbours(played, "r1", "eval/test/0/textcraft_9/0", EpisodeFilter(step=0), sort="schedule", descending=False)
    assert (last.next, last.next_failure, last.place, last.total) == (None, None, 10, 10)


def test_an_episode_outside_its_filter_still_has_neighbours(played: Connection) -> None:
    around = queries.neighbours(played, "r1", "eval/test/0/textcraft_6/0", EpisodeFilter(outcome="success"), sort="schedule", descending=False)
    assert (around.previous, around.next, around.place, around.total) == ("eval/test/0/textcraft_4/0", "eval/test/0/textcraft_8/0", 2, 5)


def test_texts_are_cut_and_their_length_is_said(played: Connection) -> None:
    turn = queries.turns_from(played, KEY, first=2, most=5, longest=4)[0]
    assert (turn.text, turn.text_length, turn.action, turn.action_length) == ("0123", 10, "say ", 6)
    assert queries.piece(played, KEY, "text", turn=2, start=4, most=3) == ("456", 10)
    assert queries.piece(played, KEY, "final", turn=1, start=0, most=100) == ("the end", 7)


@pytest.mark.parametrize(("part", "turn"), [("text", 9), ("token_ids", 1)])
def test_a_piece_of_what_is_not_there_is_refused(played: Connection, part: str, turn: int) -> None:
    with pytest.raises(StoreError):
        queries.piece(played, KEY, part, turn=turn, start=0, most=1)


def test_tokens_come_with_place_mask_and_log_probability(played: Connection) -> None:
    rows = queries.tokens_from(played, KEY, first=2, most=5)
    assert [(row.place, row.token, row.sampled, row.logprob) for row in rows] == [(2, 6, True, -0.5), (3, 7, True, -0.25)]


def key_of(number: int) -> AttemptKey:
    return replace(KEY, episode=f"eval/test/0/textcraft_{number}/0")


@pytest.mark.parametrize(
    ("a", "b", "parting"),
    [
        (0, 4, Parting(turn=1, ending=False)),
        (1, 9, None),
        (1, 2, Parting(turn=3, ending=False)),
    ],
)
def test_the_first_difference_is_what_was_shown_or_done(played: Connection, a: int, b: int, parting: Parting | None) -> None:
    assert queries.first_difference(played, key_of(a), key_of(b)) == parting


@pytest.mark.parametrize(
    ("change", "parting"),
    [
        ({}, None),
        ({"final_observation": "another end"}, Parting(turn=2, ending=True)),
        ({"stop": "context"}, Parting(turn=2, ending=True)),
        ({"reward": 0.5}, Parting(turn=2, ending=True)),
        ({"turns": (make_turn(1, reward=0.25), make_turn(2))}, Parting(turn=1, ending=False)),
        ({"turns": (make_turn(1), make_turn(2, done=True))}, Parting(turn=2, ending=False)),
    ],
)
def test_two_attempts_that_did_the_same_part_where_they_were_given_something_else(
    played: Connection, tmp_path: Path, change: dict[str, object], parting: Parting | None
) -> None:
    run = tmp_path.name
    one, two = make_scheduled(0, run=run), make_scheduled(1, run=run)
    first = replace(make_attempt(one, "failure"), turns=(make_turn(1), make_turn(2)), final_observation="end")
    second = replace(make_attempt(two, "failure"), turns=first.turns, final_observation="end")
    second = replace(second, **change)  # type: ignore[arg-type]
    records = [make_run(run), make_segment(run=run), one, first, make_outcome(first), two, second, make_outcome(second)]
    load_into(played, write_journal(tmp_path / run, records))
    keys = [replace(KEY, run=run, episode=each.episode) for each in (one, two)]
    assert queries.first_difference(played, *keys) == parting


def test_what_was_played_of_a_task_is_the_first_sample_of_each_kind(played: Connection) -> None:
    tasks = [f"textcraft_{number}" for number in (0, 1, 2, 3, 12)]
    rows = {row.task: (row.success, row.other) for row in queries.played_of(played, "r1", phase="eval", split="test", step=0, tasks=tasks)}
    # Tasks 0 to 3 end in success, failure, infra error and nothing at all; task 12 is of step 1.
    assert rows == {
        "textcraft_0": ("eval/test/0/textcraft_0/0", None),
        "textcraft_1": (None, "eval/test/0/textcraft_1/0"),
        "textcraft_2": (None, "eval/test/0/textcraft_2/0"),
    }


def test_attempts_that_a_resume_superseded_are_shown_as_such(played: Connection, tmp_path: Path) -> None:
    def step(segment: int) -> list[Record]:
        return settled(make_scheduled(1, run="r2", segment=segment, phase="train", step=2), "failure")

    load_into(played, write_journal(tmp_path / "r2", [make_run("r2"), make_segment(run="r2"), *step(1)], [make_segment(2, 1, "r2"), *step(2)]))
    tries = queries.tries_of(played, "r2", "train/test/2/textcraft_1/0", 10)
    assert [(each.segment, each.superseded) for each in tries] == [(1, True), (2, False)]


def test_an_unknown_episode_is_refused(played: Connection) -> None:
    with pytest.raises(StoreError, match="expected one of its scheduled episodes"):
        queries.one_episode(played, "r1", "eval/test/0/none/0")
