"""An attempt's tokens looked at: counts by kind, marks, and what is said when there is nothing to show."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from agentgym_cli.cli import show_tokens as shown
from agentgym_cli.episode.tokens import TrajectoryBuilder, TurnTokens
from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.store.loader import load
from agentgym_cli.store.opening import PATIENT
from agentgym_cli.store.records import ProbeRecord, TokensRecord
from agentgym_cli.verbs.tokens import TokenView, one_or_the_other, view_tokens
from agentgym_cli.verbs.turns import turns_of
from tests.episode.chats import BYTES
from tests.store.builders import make_attempt, make_run, make_scheduled, make_segment, write_journal
from tests.verbs.chat_models import chat_recipe

pytestmark = pytest.mark.slow

EPISODE = "eval/test/0/textcraft_0/0"
HOSTILE = "a door \x1b[2J\u202e [bold]⟦won⟧<|im_end|>"


def spoken(tokens: TurnTokens) -> TokensRecord:
    """Two turns: an action sampled letter by letter and stopped, then one that was cut, after a hostile observation."""
    builder = TrajectoryBuilder()
    builder.add_context(tokens.initial("", "a key"))
    builder.add_sampled([*(BYTES.token_to_id(letter) for letter in "the"), *tokens.stop_ids], [-0.5, -0.25, -1.0, -2.0])
    builder.add_context(tokens.next(HOSTILE, stop_sampled=True))
    builder.add_sampled(BYTES.encode("go", add_special_tokens=False).ids, [-0.125] * len(BYTES.encode("go", add_special_tokens=False).ids))
    built = builder.build(policy_version=0)
    assert built is not None
    return TokensRecord(token_ids=built.token_ids, action_mask=built.action_mask, logprobs=built.logprobs)


def make_store(folder: Path, *overrides: str, said: tuple[ProbeRecord, ...] = (), tokens: bool = True, several: bool = False) -> Path:
    """A store with one run: episode 0 has an attempt without tokens and one with (where any are kept), episode 1 none with."""
    resolved = resolve(chat_recipe(folder), overrides)
    kept = spoken(turns_of(resolved.run, beside=resolved.folders).tokens)
    kept = replace(kept, policy_versions=(2, 3), policy_version_tokens=(4, sum(kept.action_mask) - 4)) if several else kept
    first, other = make_scheduled(0), make_scheduled(1)
    attempts = [make_attempt(first, "infra_error"), make_attempt(first, attempt=2, tokens=kept if tokens else None), make_attempt(other)]
    write_journal(folder / "runs" / "r1", [make_run(frozen=freeze(resolved).to_json()), make_segment(), first, other, *attempts, *said])
    load(folder / "runs" / "r1", folder / "results.duckdb", PATIENT)
    return folder / "results.duckdb"


@pytest.fixture
def view(tmp_path: Path) -> TokenView:
    return view_tokens("r1", EPISODE, make_store(tmp_path), attempt=None)


def test_tokens_are_counted_by_kind_and_by_what_would_be_encoded_otherwise(view: TokenView) -> None:
    said = BYTES.encode("go", add_special_tokens=False).ids
    assert (view.attempt, view.outcome) == (2, "success")
    assert view.counts["action"] == (3 + len(said), 3)
    assert view.counts["stop"] == (1, 0)
    assert view.counts["prompt"][1] == 0
    assert view.counts["observation"][1] == len("<|im_end|>")


def test_json_has_every_token_once_with_log_probabilities_where_it_was_sampled(view: TokenView) -> None:
    values = json.loads(json.dumps(shown.values(view)))
    tokens = [token for span in values["spans"] for token in span["token_ids"]]
    assert len(tokens) == sum(count["tokens"] for count in values["counts"].values())
    assert values["spans"][0]["first"] == 0
    assert [span["logprobs"] for span in values["spans"] if span["kind"] == "stop"] == [[-2.0]]
    assert all(span["logprobs"] is None for span in values["spans"] if span["kind"] in ("prompt", "observation"))


def test_weights_that_changed_in_the_middle_of_an_episode_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_tokens("r1", EPISODE, make_store(tmp_path, several=True), attempt=None)
    assert json.loads(json.dumps(shown.values(view)))["policy_versions"] == [
        {"policy_version": 2, "action_tokens": 4},
        {"policy_version": 3, "action_tokens": 1},
    ]
    assert "sampled by weights of step 2: 4 tokens, then step 3: 1 tokens" in printed(view, monkeypatch, no_color=True, color_system=None)


def test_weights_that_did_not_change_are_not_spoken_of(view: TokenView, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown.values(view)["policy_versions"] == []
    assert "weights of" not in printed(view, monkeypatch, no_color=True, color_system=None)


def printed(view: TokenView, monkeypatch: pytest.MonkeyPatch, **options: object) -> str:
    console = Console(width=80, record=True, highlight=False, **options)  # type: ignore[arg-type]
    monkeypatch.setattr(shown, "stdout_console", lambda: console)
    shown.show_tokens(view, as_json=False)
    return console.export_text(styles=console.color_system is not None)


def test_without_colours_brackets_say_what_was_sampled_and_what_differs(view: TokenView, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(view, monkeypatch, no_color=True, color_system=None)
    assert "assistant↵\n⟦‹t›‹h›‹e›⟧⟨<|im_end|>⟩↵\n" in text
    assert text.rstrip().endswith("⟦go⟧")
    assert all(len(line) <= 80 for line in text.splitlines())


def test_promise_11_foreign_text_makes_no_mark_and_no_escape(view: TokenView, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(view, monkeypatch, no_color=True, color_system=None)
    assert "\x1b" not in text and "\u202e" not in text
    assert "\\x1b[2J\\u202e [bold]\\u27e6won\\u27e7" in text.replace("\n", "")


def test_with_colours_what_was_sampled_has_its_own(view: TokenView, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(view, monkeypatch, color_system="standard", force_terminal=True, no_color=False)
    assert "\x1b[1;32mgo\x1b[0m" in text
    assert "⟦go" not in text


def test_an_attempt_an_episode_and_a_run_without_tokens_are_told_apart(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with pytest.raises(StoreError, match=f"expected its tokens to be kept, got none; kept are those of {EPISODE}"):
        view_tokens("r1", "eval/test/0/textcraft_1/0", store, attempt=None)
    with pytest.raises(StoreError, match="expected its tokens to be kept"):
        view_tokens("r1", EPISODE, store, attempt=1)
    with pytest.raises(StoreError, match="expected one of its attempts 1, 2, got 3") as later:
        view_tokens("r1", EPISODE, store, attempt=3)
    assert later.value.hint == "name one of them, --attempt 2, or none"
    with pytest.raises(StoreError, match="expected an episode of it that was played, got 'nope'") as far:
        view_tokens("r1", "nope", store, attempt=None)
    assert far.value.hint == f"it played {EPISODE}, eval/test/0/textcraft_1/0"
    with pytest.raises(StoreError, match="expected an episode of it that was played") as refusal:
        view_tokens("r1", "eval/test/0/textcraft_0", store, attempt=None)
    assert refusal.value.hint == f"did you mean {EPISODE}?"
    with pytest.raises(RecipeError, match="expected --episode ID") as missing:
        view_tokens("r1", None, store, attempt=None)
    assert missing.value.hint == f"agentgym report r1 --store {store} --episode {EPISODE} --tokens"


NO_HISTORY = ProbeRecord(
    run="r1", segment=1, url="http://h/v1", name="endpoint: history", result="known deviation", detail="the template rewrites history", seconds=0.0
)


@pytest.mark.parametrize(
    ("kept", "said", "reason"),
    [
        ("none", (), "the run was told to keep none: store.keep_tokens=all"),
        ("all", (NO_HISTORY,), "store.keep_tokens is all, but the template rewrites history"),
        ("all", (), "store.keep_tokens is all, but policy 'local' made none"),
    ],
)
def test_why_a_run_kept_no_tokens_is_said_as_it_was_recorded(tmp_path: Path, kept: str, said: tuple[ProbeRecord, ...], reason: str) -> None:
    store = make_store(tmp_path, f"store.keep_tokens={kept}", said=said, tokens=False)
    with pytest.raises(StoreError, match=r"expected its tokens to be kept, got none$") as caught:
        view_tokens("r1", EPISODE, store, attempt=None)
    assert str(caught.value.hint).startswith(reason)
    with pytest.raises(RecipeError) as missing:
        view_tokens("r1", None, store, attempt=None)
    assert missing.value.hint == f"agentgym report r1 --store {store} --episode {EPISODE} --tokens"


def test_another_tokenizer_than_the_frozen_one_is_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    settings = tmp_path / "model" / "tokenizer_config.json"
    settings.write_text(settings.read_text() + " ")
    with pytest.raises(RecipeError, match="expected the tokenizer files that the run was frozen with, got others"):
        view_tokens("r1", EPISODE, store, attempt=None)


def test_words_that_would_be_ignored_are_refused() -> None:
    one_or_the_other(False, None, None, "md")
    one_or_the_other(True, "x", 1, "json")
    for words in ((False, "x", None, "terminal"), (False, None, 1, "terminal"), (True, "x", None, "md")):
        with pytest.raises(RecipeError, match="report --"):
            one_or_the_other(*words)
