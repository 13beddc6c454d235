"""The checks of a policy that load no weights: each passes what is right and names what is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.episode.architecture import read_architecture
from agentgym_cli.episode.qualification import masks
from agentgym_cli.episode.qualification.findings import Known, NotMet
from agentgym_cli.episode.qualification.masks import ScriptedDecoder, check_masks, play_script
from agentgym_cli.episode.qualification.stop import check_stop
from agentgym_cli.episode.qualification.template import check_template
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.errors import PolicyError
from tests.episode.chats import BYTES, CHATML, FORGETFUL, POLITE, STRIPPING, chat_template, laid_out


def judged(source: str, *, rewritten: str | None = None, system_prompt: str = "") -> str:
    tokens, facts = laid_out(source)
    return check_template(tokens, chat_template(source), facts, system_prompt=system_prompt, rewritten=rewritten)


@pytest.mark.slow
def test_a_plain_template_passes_and_the_check_says_where_an_action_would_merge() -> None:
    said = judged(CHATML)
    assert said.startswith("6 contexts equal, token for token; an action that begins with '\\n\\n' would merge")
    assert said.endswith("earlier turns stay as they are")


@pytest.mark.slow
def test_instructions_of_the_templates_own_are_said_where_the_recipe_says_none() -> None:
    assert "adds instructions of its own: 'Be kind.'" in judged(POLITE)
    assert "instructions of its own" not in judged(POLITE, system_prompt="Be quick.")


@pytest.mark.slow
def test_stripped_observations_are_said() -> None:
    with pytest.raises(Known, match="white space around observations is left out"):
        judged(STRIPPING)


@pytest.mark.slow
def test_a_template_that_rewrites_history_fails_unless_the_recipe_appends() -> None:
    with pytest.raises(NotMet, match=r"thoughts are lost; prompt\.history=append"):
        judged(FORGETFUL, rewritten="thoughts are lost")
    with pytest.raises(Known, match=r"a <think> block of an earlier action is left out or changed; kept as sampled by prompt\.history=append"):
        judged(FORGETFUL)


@pytest.mark.slow
def test_a_layout_that_is_not_the_templates_is_shown_at_its_first_difference() -> None:
    tokens, facts = laid_out(CHATML)
    wrong = TurnTokens(BYTES, replace(tokens.layout, before_later=tokens.layout.before_later.lstrip("\n")))
    with pytest.raises(NotMet, match=r"got others: '<\|im_start\|> \|"):
        check_template(wrong, chat_template(CHATML), facts, system_prompt="", rewritten=None)


def test_a_format_of_our_own_is_compared_with_its_own_text() -> None:
    assert check_template(TurnTokens(BYTES, "chatml"), None, None, system_prompt="r", rewritten=None).startswith("6 contexts equal")


@pytest.mark.slow
@pytest.mark.parametrize("source", [CHATML, FORGETFUL, STRIPPING, POLITE])
async def test_promise_05_masks_cover_what_was_sampled_and_nothing_else(source: str) -> None:
    tokens = laid_out(source)[0]
    said = await check_masks(tokens, system_prompt="rules")
    script = masks._script(tokens)
    turns = len(script) * len(masks._observations(tokens))
    assert f"exactly {turns // len(script) * sum(map(len, script))} of " in said
    assert f"sampled in {turns} scripted turns; none of " in said


async def test_promise_05_a_stop_that_was_not_sampled_is_context_and_an_empty_response_is_its_stop_alone() -> None:
    tokens = laid_out(CHATML)[0]
    [end] = tokens.stop_ids
    said = tokens.action("go")
    decoder = ScriptedDecoder([said[:-1], (end,), said], tokens.stop_ids)
    built = await play_script(decoder, tokens, ["a", "b", "c"], system_prompt="")
    assert built is not None
    assert decoder.fed[1] == tokens.next("b", stop_sampled=False)
    assert decoder.fed[1][0] == end
    assert decoder.fed[2] == tokens.next("c", stop_sampled=True)
    assert built.token_ids == (*decoder.fed[0], *said[:-1], *decoder.fed[1], end, *decoder.fed[2], *said)
    assert [place for place, sampled in enumerate(built.action_mask) if sampled and built.token_ids[place] == end] == [
        len(decoder.fed[0]) + len(said) - 1 + len(decoder.fed[1]),
        len(built.token_ids) - 1,
    ]


async def test_masks_that_are_shifted_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def shifted(*arguments: object, **words: object) -> object:
        built = await play_script(*arguments, **words)  # type: ignore[arg-type]
        assert built is not None
        return replace(built, action_mask=(built.action_mask[-1], *built.action_mask[:-1]))

    monkeypatch.setattr(masks, "play_script", shifted)
    with pytest.raises(NotMet, match="to be what was fed and sampled, got another from token"):
        await check_masks(laid_out(CHATML)[0], system_prompt="")


async def test_an_observation_that_forges_a_turn_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = laid_out(CHATML)[0]
    monkeypatch.setattr(tokens, "_encode", lambda text: tokens.read(text))
    with pytest.raises(NotMet, match="to change no turn, got other control tokens"):
        await check_masks(tokens, system_prompt="")


def ends(folder: Path, name: str, ids: object) -> Path:
    (folder / name).write_text(json.dumps({"eos_token_id": ids}))
    return folder


def test_an_end_that_the_models_settings_name_passes(tmp_path: Path) -> None:
    tokens = laid_out(CHATML)[0]
    [end] = tokens.stop_ids
    assert check_stop(tokens, model_folder=tmp_path) == f"actions end with '<|im_end|>' ({end}); the model's folder says nothing of its own"
    assert check_stop(tokens, model_folder=ends(tmp_path, "config.json", end)).endswith("as config.json says")
    other = BYTES.token_to_id("<|endoftext|>")
    said = check_stop(tokens, model_folder=ends(tmp_path, "generation_config.json", [other, end]))
    assert said.endswith(f"generation_config.json also names '<|endoftext|>' ({other}), which stop nothing here")


def test_an_end_that_the_models_settings_do_not_name_fails(tmp_path: Path) -> None:
    other = BYTES.token_to_id("<|endoftext|>")
    with pytest.raises(NotMet, match=rf"expected '<\|im_end\|>' \(\d+\), which ends an action, got '<\|endoftext\|>' \({other}\)"):
        check_stop(laid_out(CHATML)[0], model_folder=ends(tmp_path, "generation_config.json", other))


@pytest.mark.parametrize("ids", ["x", [], [1.5], {}])
def test_settings_that_cannot_be_meant_fail(tmp_path: Path, ids: object) -> None:
    with pytest.raises(NotMet, match="expected a token id or a list of them"):
        check_stop(laid_out(CHATML)[0], model_folder=ends(tmp_path, "config.json", ids))


QWEN2 = {"model_type": "qwen2", "hidden_act": "silu", "num_hidden_layers": 2}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "gpt2"}, "model_type: expected llama or qwen2, got 'gpt2'"),
        ({"model_type": ["llama"]}, "model_type: expected llama or qwen2"),
        ({"hidden_act": "gelu"}, "hidden_act: expected 'silu'"),
        ({"use_sliding_window": True}, "use_sliding_window: expected false"),
        ({"model_type": "llama", "attention_bias": True}, "attention_bias: expected false"),
        ({"rope_scaling": {"rope_type": "dynamic"}}, "rope_scaling: expected rotary positions of a fixed kind"),
    ],
)
def test_a_network_that_the_engine_does_not_compute_is_refused(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN2 | changes))
    with pytest.raises(PolicyError, match=reason):
        read_architecture(tmp_path)


@pytest.mark.parametrize("changes", [{}, {"model_type": "llama", "rope_scaling": None}, {"rope_parameters": {"rope_type": "llama3"}}])
def test_a_network_that_the_engine_computes_is_known(tmp_path: Path, changes: dict[str, object]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN2 | changes))
    assert read_architecture(tmp_path).kind == changes.get("model_type", "qwen2")
