"""Batched sampling over the weights of a Qwen2 or Llama model with a key/value cache of fixed shape. Knows no episodes, text or gradients.

A first prompt is read alone, (1, its length); later tokens in fixed shapes, (block, CHUNK) and (block, 1), idle rows as padding. So a row's bits
depend on its own tokens, seed and temperature alone. No token is banned: the distribution sampled from is the one the trainer scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from transformers import LlamaForCausalLM, Qwen2ForCausalLM

from agentgym_cli.episode.policies.protocol import SlotReply, SlotRequest
from agentgym_cli.errors import PolicyError

CausalModel: TypeAlias = Qwen2ForCausalLM | LlamaForCausalLM
"""The networks of episode/architecture.py: the same block, with biased queries, keys and values or without biases."""
BLOCK = 64
"""Most slots computed together, always as many; a block without an active row is skipped, which changes no bits."""
CHUNK = 8
"""Tokens that a row reads in one product between its turns."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights of one block; the fused ones are copies, the others the model's own tensors."""

    qkv_weight: Tensor
    qkv_bias: Tensor | None
    out: Tensor
    gate_up: Tensor
    down: Tensor
    norm_in: Tensor
    norm_mlp: Tensor


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt read once: keys and values (layers, kv_heads, length, head_dim), and the hidden state behind its last token."""

    keys: Tensor
    values: Tensor
    last: Tensor


class TorchDecoder:
    """A Decoder (episode/policies/protocol.py) in float32, over the weights of ``model`` and on their device.

    Call ``load`` after every change of the weights. Raises PolicyError when a request does not fit its slot's context.
    """

    def __init__(self, model: CausalModel, *, slots: int, context: int, stop_ids: frozenset[int], policy_version: int = 0) -> None:
        config = model.config
        self.slots = slots
        self.context = context
        self.policy_version = policy_version
        self._model = model
        self._stop_ids = stop_ids
        self._device = device = model.lm_head.weight.device
        self._heads: int = config.num_attention_heads
        self._kv_heads: int = int(config.num_key_value_heads or self._heads)
        self._head_dim: int = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
        self._eps: float = config.rms_norm_eps
        self._block_size = min(slots, BLOCK)
        rows = -(-slots // self._block_size) * self._block_size
        # Padding writes at the last position, which no real token is ever fed at: the token drawn there ends the context.
        shape = (config.num_hidden_layers, rows, self._kv_heads, context, self._head_dim)
        self._keys = torch.zeros(shape, device=device)
        self._values = torch.zeros(shape, device=device)
        self._last = torch.zeros(rows, config.hidden_size, device=device)
        self._fed = np.zeros(rows, dtype=np.int64)
        self._unfed: list[int | None] = [None] * rows
        self._uniform = np.zeros((rows, context))
        self._block_rows = torch.arange(self._block_size, device=device)[:, None]
        self._columns = torch.arange(context, device=device)
        with torch.no_grad():
            cos, sin = model.model.rotary_emb(torch.zeros(1, 1, 1, device=device), torch.arange(context, device=device)[None])
        self._cos: Tensor = cos[0].float().clone()
        self._sin: Tensor = sin[0].float().clone()
        self._layers: list[_Layer] = []
        self.load(policy_version)

    def load(self, policy_version: int) -> None:
        """Take the model's present weights; cheap (one copy of the fused projections). Caches of running episodes become stale."""
        with torch.no_grad():
            self._layers = [
                _Layer(
                    qkv_weight=torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight]),
                    qkv_bias=None if a.q_proj.bias is None else torch.cat([a.q_proj.bias, a.k_proj.bias, a.v_proj.bias]),
                    out=a.o_proj.weight.detach(),
                    gate_up=torch.cat([block.mlp.gate_proj.weight, block.mlp.up_proj.weight]),
                    down=block.mlp.down_proj.weight.detach(),
                    norm_in=block.input_layernorm.weight.detach(),
                    norm_mlp=block.post_attention_layernorm.weight.detach(),
                )
                for block in self._model.model.layers
                for a in [block.self_attn]
            ]
        self.policy_version = policy_version

    @torch.inference_mode()
    def decode(self, requests: Sequence[SlotRequest]) -> list[SlotReply]:
        """Feed and sample one turn for each request (distinct slots)."""
        self._read(requests)
        tokens: dict[int, list[int]] = {r.slot: [] for r in requests}
        logprobs: dict[int, list[float]] = {r.slot: [] for r in requests}
        active = list(requests)
        while active:
            for request, token, logprob in self._draw(active):
                tokens[request.slot].append(token)
                logprobs[request.slot].append(logprob)
                self._unfed[request.slot] = token
            active = [r for r in active if tokens[r.slot][-1] not in self._stop_ids and len(tokens[r.slot]) < r.max_new]
            self._feed({r.slot: [tokens[r.slot][-1]] for r in active}, 1)
        return [
            SlotReply(token_ids=tuple(tokens[r.slot]), logprobs=tuple(logprobs[r.slot]), stopped=tokens[r.slot][-1] in self._stop_ids)
            for r in requests
        ]

    def _read(self, requests: Sequence[SlotRequest]) -> None:
        """Feed what each row has not been fed: first prompts alone (equal ones once), later tokens in pieces of CHUNK."""
        prompts: dict[tuple[int, ...], _Prompt] = {}
        later: dict[int, list[int]] = {}
        for request in requests:
            slot = request.slot
            unfed = None if request.fresh else self._unfed[slot]
            have = 0 if request.fresh else int(self._fed[slot]) + (unfed is not None)
            if have + len(request.new_tokens) + request.max_new > self.context or not request.new_tokens or request.max_new < 1:
                raise PolicyError(
                    f"decoder slot {slot}: expected new tokens, room to sample and at most {self.context} tokens of context, "
                    f"got {have} + {len(request.new_tokens)} tokens and {request.max_new} to sample"
                )
            if request.fresh:
                if request.new_tokens not in prompts:
                    prompts[request.new_tokens] = self._prompt(request.new_tokens)
                self._start(slot, request.seed, prompts[request.new_tokens])
            else:
                later[slot] = [*([] if unfed is None else [unfed]), *request.new_tokens]
        while later:
            self._feed({slot: tokens[:CHUNK] for slot, tokens in later.items()}, CHUNK)
            later = {slot: tokens[CHUNK:] for slot, tokens in later.items() if len(tokens) > CHUNK}

    def _prompt(self, token_ids: tuple[int, ...]) -> _Prompt:
        ids = torch.tensor([token_ids], device=self._device)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        x = F.embedding(ids, self._model.model.embed_tokens.weight)
        length = len(token_ids)
        for layer in self._layers:
            q, k, v = self._project(layer, x, self._cos[None, :length], self._sin[None, :length])
            keys.append(k[0])
            values.append(v[0])
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self._heads != self._kv_heads)
            x = self._close(layer, x, mixed)
        return _Prompt(keys=torch.stack(keys), values=torch.stack(values), last=self._norm(x[0, -1], self._model.model.norm.weight))

    def _start(self, slot: int, seed: int, prompt: _Prompt) -> None:
        length = prompt.keys.shape[2]
        self._keys[:, slot, :, :length] = prompt.keys
        self._values[:, slot, :, :length] = prompt.values
        self._last[slot] = prompt.last
        self._fed[slot] = length
        self._unfed[slot] = None
        # Number p of this stream depends on (seed, p) alone: Philox counts from zero under a key.
        self._uniform[slot] = np.random.Generator(np.random.Philox(key=seed)).random(self.context)

    def _feed(self, tokens: dict[int, list[int]], width: int) -> None:
        """Feed up to ``width`` tokens to each given row, block by block; the hidden state behind a row's last token goes to ``_last``."""
        size = self._block_size
        for first in sorted({slot - slot % size for slot in tokens}):
            ids = np.zeros((size, width), dtype=np.int64)
            places = np.full((size, width), self.context - 1, dtype=np.int64)
            rows = [slot for slot in tokens if first <= slot < first + size]
            for slot in rows:
                count = len(tokens[slot])
                ids[slot - first, :count] = tokens[slot]
                places[slot - first, :count] = self._fed[slot] + np.arange(count)
                self._fed[slot] += count
                self._unfed[slot] = None
            hidden = self._block(first, ids, places)
            ends = [len(tokens[slot]) - 1 for slot in rows]
            self._last[rows] = hidden[[slot - first for slot in rows], ends]

    def _block(self, first: int, ids: NDArray[np.int64], at: NDArray[np.int64]) -> Tensor:
        """Hidden states behind the final norm, (block, T, d), for token ids and positions, both (block, T), of the slots from ``first``."""
        size, length = ids.shape
        group = self._heads // self._kv_heads
        places = torch.from_numpy(at).to(self._device)
        x = F.embedding(torch.from_numpy(ids).to(self._device), self._model.model.embed_tokens.weight)
        cos, sin = self._cos[places], self._sin[places]
        unattended = torch.zeros(size, 1, length, self.context, device=self._device)
        unattended.masked_fill_((self._columns > places[:, :, None])[:, None], float("-inf"))
        bias = unattended.repeat(1, 1, group, 1)
        for index, layer in enumerate(self._layers):
            q, k, v = self._project(layer, x, cos, sin)
            keys, values = self._keys[index, first : first + size], self._values[index, first : first + size]
            keys[self._block_rows, :, places] = k.transpose(1, 2)
            values[self._block_rows, :, places] = v.transpose(1, 2)
            grouped = q.reshape(size, self._kv_heads, group * length, self._head_dim)
            mixed = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=bias)
            x = self._close(layer, x, mixed.reshape(size, self._heads, length, self._head_dim))
        return self._norm(x, self._model.model.norm.weight)

    def _project(self, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, (B, heads, T, head_dim), positions turned in; ``cos`` and ``sin`` are (B, T, head_dim)."""
        hidden = F.linear(self._norm(x, layer.norm_in), layer.qkv_weight, layer.qkv_bias)
        heads = hidden.view(*x.shape[:2], -1, self._head_dim).transpose(1, 2)
        turned, values = heads[:, : self._heads + self._kv_heads], heads[:, self._heads + self._kv_heads :]
        half = self._head_dim // 2
        rotated = torch.cat((-turned[..., half:], turned[..., :half]), dim=-1)
        turned = turned * cos[:, None] + rotated * sin[:, None]
        return turned[:, : self._heads], turned[:, self._heads :], values

    def _close(self, layer: _Layer, x: Tensor, mixed: Tensor) -> Tensor:
        """The rest of a block behind attention ``mixed``, (B, heads, T, head_dim)."""
        x = x + F.linear(mixed.transpose(1, 2).reshape(*x.shape[:2], -1), layer.out)
        gate, up = F.linear(self._norm(x, layer.norm_mlp), layer.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, layer.down)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self._eps)

    def _draw(self, active: list[SlotRequest]) -> list[tuple[SlotRequest, int, float]]:
        """One token and its log-probability for each active row: inverse CDF of the tempered distribution, or its mode when greedy."""
        temperature = torch.ones(len(self._fed))
        for request in active:
            temperature[request.slot] = request.temperature or 1.0
        logp = torch.log_softmax(F.linear(self._last, self._model.lm_head.weight) / temperature[:, None].to(self._device), dim=-1)
        cdf = logp.double().exp().cumsum(-1)
        rows = [r.slot for r in active]
        drawn = torch.from_numpy(self._uniform[rows, self._fed[rows]])[:, None].to(self._device)
        chosen = torch.searchsorted(cdf[rows], drawn * cdf[rows, -1:], right=True)[:, 0].clamp(max=logp.shape[1] - 1)
        greedy = torch.tensor([r.temperature == 0.0 for r in active], device=self._device)
        picked = torch.where(greedy, logp[rows].argmax(-1), chosen)
        return list(zip(active, picked.tolist(), logp[rows, picked].tolist(), strict=True))
