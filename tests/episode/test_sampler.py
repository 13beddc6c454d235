"""The batched sampler: agrees with the model's own forward pass, and every row depends on its own tokens and seed alone."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Qwen2ForCausalLM

from agentgym_cli.episode.policies.protocol import SlotReply, SlotRequest
from agentgym_cli.episode.policies.sampler import TorchDecoder
from agentgym_cli.errors import PolicyError
from agentgym_cli.learn.model import build_model
from tests.learn.models import VOCABULARY, tiny_llama, tiny_model

pytestmark = pytest.mark.torch

STOP = 12
RECIPES = Path(__file__).parents[2] / "recipes"


def make_decoder(model: Qwen2ForCausalLM, *, slots: int = 4, context: int = 48) -> TorchDecoder:
    return TorchDecoder(model, slots=slots, context=context, stop_ids=frozenset({STOP}))


def ask(slot: int, tokens: tuple[int, ...], *, fresh: bool = True, seed: int = 7, most: int = 6, temperature: float = 1.0) -> SlotRequest:
    return SlotRequest(slot=slot, new_tokens=tokens, fresh=fresh, seed=seed, max_new=most, temperature=temperature)


def prompt(length: int, offset: int = 0) -> tuple[int, ...]:
    return tuple((offset + 5 * place) % 11 for place in range(length))


def by_forward(model: Qwen2ForCausalLM, context: list[int], reply: SlotReply, temperature: float) -> list[float]:
    """Log-probabilities of a reply's tokens behind ``context``, from one unbatched forward pass."""
    ids = [*context, *reply.token_ids]
    with torch.no_grad():
        each = torch.log_softmax(model(torch.tensor([ids])).logits[0] / temperature, dim=-1)
    return [float(each[len(context) + place - 1, token]) for place, token in enumerate(reply.token_ids)]


@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("network", [tiny_model, tiny_llama])
def test_log_probabilities_agree_with_the_models_own_forward_pass_over_three_turns(network, kv_heads, temperature):
    model = network(3, kv_heads=kv_heads)
    decoder = make_decoder(model)
    contexts: dict[int, list[int]] = {slot: [] for slot in (0, 2, 3)}
    for turn, length in enumerate((11, 3, 17)):
        said = {slot: prompt(length - slot % 2, slot + turn) for slot in contexts}
        requests = [ask(slot, said[slot], fresh=turn == 0, seed=slot, most=4, temperature=temperature) for slot in contexts]
        for request, reply in zip(requests, decoder.decode(requests), strict=True):
            contexts[request.slot] += request.new_tokens
            assert list(reply.logprobs) == pytest.approx(by_forward(model, contexts[request.slot], reply, temperature), abs=1e-5)
            contexts[request.slot] += reply.token_ids


def two_turns(decoder: TorchDecoder, others: list[list[SlotRequest]]) -> list[SlotReply]:
    """Slot 1 takes the same two turns whatever ``others`` do beside it."""
    own = [ask(1, prompt(9), seed=5), ask(1, prompt(10, 3), fresh=False, seed=5)]
    return [decoder.decode([*beside, request])[-1] for request, beside in zip(own, others, strict=True)]


@pytest.mark.parametrize(
    "others",
    [
        [[ask(0, prompt(20, 4), seed=1), ask(3, prompt(2), seed=2)], [ask(0, prompt(12), fresh=False, seed=1)]],
        [[ask(0, prompt(9), seed=9, temperature=3.0)], [ask(0, prompt(1), seed=4, most=1), ask(2, prompt(25), seed=8)]],
        [[ask(slot, prompt(9), seed=5) for slot in (0, 2, 3)], [ask(3, prompt(4), fresh=False, seed=5, temperature=0.0)]],
    ],
)
def test_promise_07_a_row_has_the_same_bits_whatever_the_other_rows_do(others):
    model = tiny_model(3)
    alone = two_turns(make_decoder(model), [[], []])
    assert two_turns(make_decoder(model), others) == alone


def test_promise_07_rows_are_independent_in_the_shapes_of_the_laptop_recipe():
    model = build_model(RECIPES / "models/textcraft_laptop", seed=1, vocabulary=100, context=176)
    decoder = TorchDecoder(model, slots=96, context=176, stop_ids=frozenset())
    own = [ask(70, prompt(61), seed=5, most=9), ask(70, prompt(7, 3), fresh=False, seed=5, most=9)]
    alone = [decoder.decode([request])[0] for request in own]
    others = [[ask(slot, prompt(10 + slot, slot), fresh=turn == 0, seed=slot, most=5) for slot in range(0, 69, 2)] for turn in range(2)]
    assert [decoder.decode([*beside, request])[-1] for beside, request in zip(others, own, strict=True)] == alone


def test_promise_07_a_slot_used_before_and_blocks_beside_it_change_no_bits():
    model = tiny_model(3)
    alone = two_turns(make_decoder(model), [[], []])
    used = make_decoder(model)
    used.decode([ask(slot, prompt(30, slot), seed=slot) for slot in range(4)])
    assert two_turns(used, [[], []]) == alone


def test_the_draw_at_a_position_depends_on_the_episodes_seed_and_the_position_alone():
    # A uniform model: the token is the place of the position's number among 13 equal shares.
    model = tiny_model()
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    decoder = make_decoder(model, context=40)
    long = decoder.decode([ask(0, prompt(5), seed=11, most=30)])[0].token_ids
    other_slot = decoder.decode([ask(2, prompt(5, 4), seed=11, most=30)])[0].token_ids
    later = decoder.decode([ask(1, prompt(9), seed=11, most=26)])[0].token_ids
    other_seed = decoder.decode([ask(1, prompt(5), seed=12, most=30)])[0].token_ids
    assert long == other_slot
    overlap = min(len(long) - 4, len(later))
    assert overlap > 0
    assert long[4 : 4 + overlap] == later[:overlap]
    assert other_seed != long


def test_samples_follow_the_distribution():
    model = tiny_model(5)
    count = 3000
    decoder = make_decoder(model, slots=64)
    with torch.no_grad():
        expected = torch.softmax(model(torch.tensor([prompt(6)])).logits[0, -1] / 1.7, dim=-1)
    seen: Counter[int] = Counter()
    for first in range(0, count, 60):
        replies = decoder.decode([ask(slot, prompt(6), seed=first + slot, most=1, temperature=1.7) for slot in range(60)])
        seen.update(reply.token_ids[0] for reply in replies)
    chi_square = sum((seen[token] - count * share) ** 2 / (count * share) for token, share in enumerate(expected.tolist()))
    # 99.9th percentile of chi-square with 12 degrees of freedom.
    assert chi_square < 32.9
    assert sum(seen.values()) == count


def test_greedy_takes_the_mode_and_reports_it_at_temperature_one():
    model = tiny_model(3)
    reply = make_decoder(model).decode([ask(0, prompt(8), temperature=0.0, most=5)])[0]
    context = list(prompt(8))
    for token in reply.token_ids:
        with torch.no_grad():
            assert int(model(torch.tensor([context])).logits[0, -1].argmax()) == token
        context.append(token)
    assert list(reply.logprobs) == pytest.approx(by_forward(model, list(prompt(8)), reply, 1.0), abs=1e-5)


def always(model: Qwen2ForCausalLM, token: int) -> Qwen2ForCausalLM:
    """Make ``token`` all but certain: every hidden state is the same and lies along its embedding."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "proj" in name:
                value.zero_()
        model.model.embed_tokens.weight.fill_(1.0)
        model.model.embed_tokens.weight[token] = 9.0
    return model


def test_promise_05_a_sampled_stop_token_ends_the_turn_inside_the_reply():
    reply = make_decoder(always(tiny_model(), STOP)).decode([ask(0, prompt(3), most=6)])[0]
    assert (reply.token_ids, reply.stopped) == ((STOP,), True)
    assert reply.logprobs[0] == pytest.approx(0.0, abs=1e-6)


def test_promise_05_a_response_cut_by_its_limit_ends_without_a_stop():
    reply = make_decoder(always(tiny_model(), 4)).decode([ask(0, prompt(3), most=6)])[0]
    assert (reply.token_ids, reply.stopped) == ((4,) * 6, False)


def test_new_weights_are_used_after_load():
    model = tiny_model(3)
    decoder = make_decoder(model)
    before = decoder.decode([ask(0, prompt(8))])[0]
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(1.1)
    decoder.load(5)
    after = decoder.decode([ask(0, prompt(8))])[0]
    assert decoder.policy_version == 5
    assert list(after.logprobs) == pytest.approx(by_forward(model, list(prompt(8)), after, 1.0), abs=1e-5)
    assert after.logprobs[0] != before.logprobs[0]


def test_an_episode_may_fill_its_context_to_the_last_token_and_no_further():
    model = tiny_model(3)
    decoder = TorchDecoder(model, slots=2, context=16, stop_ids=frozenset())
    first = decoder.decode([ask(0, prompt(6), most=4), ask(1, prompt(3), most=2)])
    last = decoder.decode([ask(0, prompt(2), fresh=False, most=4)])[0]
    context = [*prompt(6), *first[0].token_ids, *prompt(2)]
    assert len(context) + len(last.token_ids) == 16
    assert list(last.logprobs) == pytest.approx(by_forward(model, context, last, 1.0), abs=1e-5)
    with pytest.raises(PolicyError, match="at most 16 tokens of context"):
        decoder.decode([ask(0, prompt(1), fresh=False, most=1)])


@pytest.mark.parametrize("request_", [ask(0, prompt(45), most=4), ask(0, (), most=4), ask(0, prompt(3), most=0)])
def test_a_request_that_does_not_fit_is_refused(request_):
    with pytest.raises(PolicyError, match="decoder slot 0"):
        make_decoder(tiny_model()).decode([request_])


def test_the_whole_vocabulary_can_be_sampled():
    model = tiny_model()
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    decoder = TorchDecoder(model, slots=8, context=48, stop_ids=frozenset())
    replies = decoder.decode([ask(slot, prompt(2), seed=slot, most=40) for slot in range(8)])
    assert {token for reply in replies for token in reply.token_ids} == set(range(VOCABULARY))
    assert replies[0].logprobs[0] == pytest.approx(-math.log(VOCABULARY), abs=1e-6)


def test_everything_that_the_decoder_makes_is_on_its_model_s_device():
    # Numbers of the device "meta" have no values and cannot be mixed with those of the CPU, which is what a GPU would not allow either.
    model = tiny_model()
    torch.nn.Module.to(model, "meta")
    decoder = TorchDecoder(model, slots=2, context=32, stop_ids=frozenset({1}))
    assert decoder._prompt((1, 2, 3)).keys.device.type == "meta"
    ids = np.zeros((2, 8), dtype=np.int64)
    assert decoder._block(0, ids, ids).device.type == "meta"
    with pytest.raises(NotImplementedError, match="no data"):
        decoder.decode([SlotRequest(slot=0, fresh=True, new_tokens=(1, 2, 3), max_new=4, seed=1, temperature=1.0)])
