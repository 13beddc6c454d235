"""The named questions about single episodes: lists by filter, page by page, and one attempt, piece by piece. Returns rows; computes no rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from agentgym_cli.recipe.wording import shown
from agentgym_cli.store.db import Connection, first_row, rows_of
from agentgym_cli.store.episode_rows import (
    AttemptKey,
    ChoiceRow,
    EpisodeFilter,
    EpisodePage,
    EpisodeRow,
    Neighbours,
    Parting,
    PlayedRow,
    Sort,
    TokenRow,
    TryRow,
    TurnRow,
)
from agentgym_cli.store.queries import NotInStore, fetch

_COLUMNS = """
    episode, phase, split, step, task, category, left(goal, 400) as goal, sample, horizon, outcome, attempts, attempt, reward, by_verifier, stop,
    cause, turns_count as turns, invalid_actions, action_tokens, seconds
""".strip()
# Every key is complete, so that a place in the order is a value and a name: what is not known comes first.
_KEYS: Mapping[Sort, str] = MappingProxyType(
    {
        "schedule": "step::hugeint * 4294967296 + task_index",
        "task": "task",
        "outcome": "outcome",
        "reward": "coalesce(reward, '-infinity'::double)",
        "turns": "coalesce(turns_count, -1)",
        "seconds": "coalesce(seconds, -1)",
        "attempts": "attempts",
        "tokens": "coalesce(action_tokens, -1)",
        "invalid": "coalesce(invalid_actions, -1)",
    }
)
_CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "phase": "phase = ?",
        "split": "split = ?",
        "step": "step = ?",
        "task": "task = ?",
        "category": "category = ?",
        "horizon": "horizon = ?",
        "outcome": "outcome = ?",
        "stop": "stop = ?",
        "cause": "cause = ?",
        "reward_from": "reward >= ?",
        "reward_to": "reward <= ?",
        "turns_from": "turns_count >= ?",
        "turns_to": "turns_count <= ?",
    }
)
_TEXT = """
episode in (
    select episode from turns where run = ? and (contains(lower(observation), lower(?)) or contains(lower(text), lower(?)))
    union all select episode from attempts where run = ? and contains(lower(final_observation), lower(?))
)
""".strip()
_CHOICES = """
select phase, split, step, category, horizon, outcome, stop, cause, count(*) as episodes
from episodes_final where run = ?
group by all
order by all
"""
_ONE = f"select {_COLUMNS} from episodes_final where run = ? and episode = ?"
_SOME = f"select {_COLUMNS} from episodes_final where run = ? and list_contains(?, episode)"
_TRIES = """
with counted as (select segment, attempt from attempts_final where run = $run and episode = $episode)
select
    a.segment, a.attempt, c.segment is null as superseded, a.stop, a.outcome, a.truncated, a.cause, left(a.detail, 2000) as detail,
    a.action_induced, a.reward, a.verified, a.turns_count as turns, a.invalid_actions, a.prompt_tokens, a.action_tokens, a.policy_version,
    a.seconds, a.policy_seconds, a.env_seconds, a.replica, left(a.final_observation, $longest) as final_observation,
    length(a.final_observation) as final_length, a.seed, a.ended, len(a.token_ids) as tokens
from attempts a left join counted c on c.segment = a.segment and c.attempt = a.attempt
where a.run = $run and a.episode = $episode
order by a.segment, a.attempt
"""
_ATTEMPT = "run = ? and segment = ? and episode = ? and attempt = ?"
_KNOWN = f"select 1 from attempts where {_ATTEMPT}"
_TURNS = f"""
select
    turn, left(observation, ?) as observation, length(observation) as observation_length, left(text, ?) as text, length(text) as text_length,
    left(action, ?) as action, length(action) as action_length, valid, reward, done, response_tokens, context_tokens, policy_seconds, env_seconds,
    cut
from turns where {_ATTEMPT} and turn >= ?
order by turn
limit ?
"""
_PIECES: Mapping[str, str] = MappingProxyType(
    {
        "observation": f"select substr(observation, ?, ?), length(observation) from turns where {_ATTEMPT} and turn = ?",
        "text": f"select substr(text, ?, ?), length(text) from turns where {_ATTEMPT} and turn = ?",
        "action": f"select substr(action, ?, ?), length(action) from turns where {_ATTEMPT} and turn = ?",
        "final": f"select substr(final_observation, ?, ?), length(final_observation) from attempts where {_ATTEMPT}",
    }
)
PIECES = tuple(_PIECES)
"""Texts of an attempt that can be read piece by piece; ``final`` is what the world showed last."""
_FURTHEST = 2**32 - 2
"""Characters into a text at most, as DuckDB counts them; it keeps none that is longer."""
_TOKENS = """
with kept as (
    select token_ids[$first:$last] as ids, action_mask[$first:$last] as mask, logprobs[$first:$last] as logprobs
    from attempts where run = $run and segment = $segment and episode = $episode and attempt = $attempt
)
select $first + generate_subscripts(ids, 1) - 1 as place, unnest(ids) as token, unnest(mask) as sampled, unnest(logprobs) as logprob from kept
"""
_DIVERGES = """
with a as (
    select turn, observation, action, text, reward, done from turns
    where run = $run_a and segment = $segment_a and episode = $episode_a and attempt = $attempt_a
),
b as (
    select turn, observation, action, text, reward, done from turns
    where run = $run_b and segment = $segment_b and episode = $episode_b and attempt = $attempt_b
)
select min(coalesce(a.turn, b.turn))
from a full join b on a.turn = b.turn
where a.turn is null or b.turn is null or a.observation is distinct from b.observation
    or coalesce(a.action, a.text) is distinct from coalesce(b.action, b.text) or a.reward is distinct from b.reward
    or a.done is distinct from b.done
"""
_ENDINGS = """
select a.turns_count
from attempts a, attempts b
where a.run = $run_a and a.segment = $segment_a and a.episode = $episode_a and a.attempt = $attempt_a
    and b.run = $run_b and b.segment = $segment_b and b.episode = $episode_b and b.attempt = $attempt_b
    and (a.stop, a.outcome, a.cause, a.reward, a.verified, a.final_observation)
        is distinct from (b.stop, b.outcome, b.cause, b.reward, b.verified, b.final_observation)
"""
_PLAYED = """
select
    task, arg_min(episode, sample) filter (outcome = 'success') as success, arg_min(episode, sample) filter (outcome <> 'success') as other
from episodes_final where run = ? and phase = ? and split = ? and step = ? and list_contains(?, task) and attempts > 0
group by task
"""
_OF_TASK = f"select {_COLUMNS} from episodes_final where run = ? and task = ? order by step desc, phase, split, sample limit ?"
_LOADED = "select segment, loaded from journals where run = ? order by segment"
_MARKS = """
select
    r.run, coalesce(sum(j.loaded), 0)::bigint as loaded, coalesce(string_agg(j.mark, ' ' order by j.segment), '') as files,
    (select coalesce(max(applied), '') from migrations) as made
from runs r left join journals j on j.run = r.run
group by r.run
"""


def _where(run: str, wanted: EpisodeFilter) -> tuple[str, list[object]]:
    """The condition of a filter and its values."""
    parts, values = ["run = ?"], list[object]([run])
    for name, condition in _CONDITIONS.items():
        value = getattr(wanted, name)
        if value is not None:
            parts.append(condition)
            values.append(value)
    if wanted.text is not None:
        parts.append(_TEXT)
        values += [run, wanted.text, wanted.text, run, wanted.text]
    return " and ".join(parts), values


def _place(connection: Connection, run: str, episode: str, sort: Sort) -> object:
    row = first_row(connection, f"select {_KEYS[sort]} from episodes_final where run = ? and episode = ?", [run, episode])
    if row is None:
        raise NotInStore(f"run {shown(run)}: expected one of its scheduled episodes, got {shown(episode)}", "agentgym view RUN lists them")
    return row[0]


def _beyond(sign: str) -> str:
    """Behind a place (``>``), or before it (``<``), by value and name."""
    return f"(place {sign} $place or (place = $place and episode {sign} $name))"


def _named(where: str, values: Sequence[object]) -> tuple[str, dict[str, object]]:
    """The same condition with its values by name, for a question that has others too."""
    for number in range(len(values)):
        where = where.replace("?", f"$v{number}", 1)
    return where, {f"v{number}": value for number, value in enumerate(values)}


def episode_page(
    connection: Connection,
    run: str,
    wanted: EpisodeFilter,
    *,
    sort: Sort = "schedule",
    descending: bool = False,
    after: str | None = None,
    before: str | None = None,
    most: int = 100,
) -> EpisodePage:
    """At most ``most`` episodes behind the episode ``after`` or up to the one ``before``, in order. Raises NotInStore for an unknown name."""
    where, named = _named(*_where(run, wanted))
    backward = before is not None and after is None
    later, earlier = ("<", ">") if descending else (">", "<")
    shown_way, other_way = ("desc", "asc") if descending else ("asc", "desc")
    way, beyond, place = (other_way if backward else shown_way), "true", dict[str, object]()
    if (name := after if after is not None else before) is not None:
        place = {"place": _place(connection, run, name, sort), "name": name}
        beyond = _beyond(earlier if backward else later)
    # Which episodes are meant is worked out once, since texts of turns may have to be gone through.
    sql = f"""
    with found as materialized (select episode, {_KEYS[sort]} as place from episodes_final where {where}),
    part as (select episode, place from found where {beyond} order by place {way}, episode {way} limit $most),
    head as (select episode as first_name, place as first_place from part order by place {shown_way}, episode {shown_way} limit 1)
    select
        episode, (select count(*) from found),
        (select count(*) from found, head where place {earlier} first_place or (place = first_place and episode {earlier} first_name))
    from part order by place {shown_way}, episode {shown_way}
    """
    rows = connection.execute(sql, {**named, **place, "most": most}).fetchall()
    if not rows:
        total = _count(connection, where, named) if place else 0
        return EpisodePage(rows=(), total=total, before=total if after is not None else 0)
    names = [str(row[0]) for row in rows]
    known = {row.episode: row for row in fetch(connection, EpisodeRow, _SOME, [run, names])}
    return EpisodePage(rows=tuple(known[name] for name in names), total=int(rows[0][1]), before=int(rows[0][2]))


def _count(connection: Connection, where: str, named: Mapping[str, object]) -> int:
    row = connection.execute(f"select count(*) from episodes_final where {where}", dict(named)).fetchone()
    assert row is not None, "a count has a row"
    return int(row[0])


def neighbours(connection: Connection, run: str, episode: str, wanted: EpisodeFilter, *, sort: Sort, descending: bool) -> Neighbours:
    """What comes before and behind an episode, which need not be let through itself. Raises NotInStore for an unknown name."""
    place = _place(connection, run, episode, sort)
    where, named = _named(*_where(run, wanted))

    def nearest(sign: str, order: str, failure: bool) -> str:
        only = " and outcome = 'failure'" if failure else ""
        beyond = f"(place {sign} $place or (place = $place and episode {sign} $episode))"
        return f"(select episode from found where {beyond}{only} order by place {order}, episode {order} limit 1)"

    later, earlier = (("<", "desc"), (">", "asc")) if descending else ((">", "asc"), ("<", "desc"))
    up_to = f"(select count(*) from found where place {earlier[0]} $place or (place = $place and episode {earlier[0]}= $episode))"
    ask = ", ".join(nearest(*way, failure) for failure in (False, True) for way in (earlier, later))
    sql = f"""
    with found as materialized (select episode, outcome, {_KEYS[sort]} as place from episodes_final where {where})
    select {ask}, {up_to}, (select count(*) from found)
    """
    row = connection.execute(sql, {**named, "place": place, "episode": episode}).fetchone()
    assert row is not None, "a question without a table has a row"
    return Neighbours(previous=row[0], next=row[1], previous_failure=row[2], next_failure=row[3], place=int(row[4]), total=int(row[5]))


def choices(connection: Connection, run: str) -> list[ChoiceRow]:
    """What there is to choose from."""
    return fetch(connection, ChoiceRow, _CHOICES, [run])


def one_episode(connection: Connection, run: str, episode: str) -> EpisodeRow:
    """One scheduled episode. Raises NotInStore for an unknown name."""
    found = fetch(connection, EpisodeRow, _ONE, [run, episode])
    if not found:
        raise NotInStore(f"run {shown(run)}: expected one of its scheduled episodes, got {shown(episode)}", "agentgym view RUN lists them")
    return found[0]


def tries_of(connection: Connection, run: str, episode: str, longest: int) -> list[TryRow]:
    """All attempts at an episode, superseded ones too, by segment and number; texts of at most ``longest`` characters."""
    columns = list(TryRow.__dataclass_fields__)
    rows = connection.execute(_TRIES, {"run": run, "episode": episode, "longest": longest}).fetchall()
    return [TryRow(**dict(zip(columns, row, strict=True))) for row in rows]


def refuse_unknown(connection: Connection, key: AttemptKey) -> None:
    """Raises NotInStore where there is no such attempt."""
    if first_row(connection, _KNOWN, _values(key)) is None:
        raise NotInStore(
            f"episode {shown(key.episode)} of run {shown(key.run)}: expected one of its attempts, got {key.attempt} of segment {key.segment}"
        )


def turns_from(connection: Connection, key: AttemptKey, *, first: int, most: int, longest: int) -> list[TurnRow]:
    """At most ``most`` turns from ``first`` on, texts of at most ``longest`` characters."""
    return fetch(connection, TurnRow, _TURNS, [longest, longest, longest, *_values(key), first, most])


def piece(connection: Connection, key: AttemptKey, what: str, *, turn: int, start: int, most: int) -> tuple[str, int]:
    """Characters of one text from ``start`` (0 is its first) on, and the text's length. Raises NotInStore where there is none."""
    if what not in _PIECES:
        raise NotInStore(f"part: expected one of {', '.join(_PIECES)}, got {shown(what)}")
    values = [min(start, _FURTHEST) + 1, most, *_values(key), *([] if what == "final" else [turn])]
    row = first_row(connection, _PIECES[what], values)
    if row is None or row[0] is None:
        raise NotInStore(f"episode {shown(key.episode)}: expected turn {turn} of attempt {key.attempt}, got none")
    return str(row[0]), int(row[1])


def tokens_from(connection: Connection, key: AttemptKey, *, first: int, most: int) -> list[TokenRow]:
    """At most ``most`` tokens from place ``first`` (from 1) on."""
    named: dict[str, object] = {"run": key.run, "segment": key.segment, "episode": key.episode, "attempt": key.attempt}
    rows = connection.execute(_TOKENS, {**named, "first": first, "last": first + most - 1}).fetchall()
    return [TokenRow(place=place, token=token, sampled=sampled, logprob=logprob) for place, token, sampled, logprob in rows]


def token_ids_of(connection: Connection, key: AttemptKey) -> list[int]:
    """All token ids of an attempt; empty where none were kept."""
    row = first_row(connection, f"select token_ids from attempts where {_ATTEMPT}", _values(key))
    return [] if row is None or row[0] is None else [int(each) for each in row[0]]


def first_difference(connection: Connection, a: AttemptKey, b: AttemptKey) -> Parting | None:
    """Where two attempts part; None where they were shown and did the same, were given the same for it, and ended alike."""
    named = {f"{name}_{side}": getattr(key, name) for side, key in (("a", a), ("b", b)) for name in ("run", "segment", "episode", "attempt")}
    row = connection.execute(_DIVERGES, named).fetchone()
    if row is not None and row[0] is not None:
        return Parting(turn=int(row[0]), ending=False)
    end = connection.execute(_ENDINGS, named).fetchone()
    return None if end is None else Parting(turn=int(end[0]), ending=True)


def played_of(connection: Connection, run: str, *, phase: str, split: str, step: int, tasks: Sequence[str]) -> list[PlayedRow]:
    """Of each of these tasks, an episode of one part that was played and succeeded, and one that did not; none of a task that was not played."""
    return fetch(connection, PlayedRow, _PLAYED, [run, phase, split, step, list(tasks)])


def episodes_of_task(connection: Connection, run: str, task: str, most: int) -> list[EpisodeRow]:
    """Episodes of one task, the latest steps first."""
    return fetch(connection, EpisodeRow, _OF_TASK, [run, task, most])


def loaded_bytes(connection: Connection, run: str) -> dict[int, int]:
    """How much of each segment's journal the store holds."""
    return {int(segment): int(loaded) for segment, loaded in rows_of(connection, _LOADED, [run])}


def marks(connection: Connection) -> dict[str, tuple[int, str, str]]:
    """For each run what changes whenever it gains records, is loaded from other journals, or the store is made again."""
    return {str(run): (int(loaded), str(files), str(made)) for run, loaded, files, made in rows_of(connection, _MARKS)}


def _values(key: AttemptKey) -> list[object]:
    return [key.run, key.segment, key.episode, key.attempt]
