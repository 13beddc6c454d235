"""How long each phase of a step takes a single server of it: from assumptions that are named, or from what a run or a probe measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GpuKind
from agentgym_cli.capacity.layout import Layout

TIME_ERROR = 2.0
"""Factor that measured times may lie above or below those from assumptions."""
_MEASURED_STEP_SECONDS: Mapping[str, float] = {"textcraft": 0.0007, "babyai": 0.006, "sciworld": 0.043}
"""Mean of one call against the family's released server, one session at a time."""
_UNKNOWN_STEP_SECONDS = 0.1
_CALL_SECONDS = 0.001
"""Of one call beside its server: client, sockets, parsing."""
_BANDWIDTH_SHARE = 0.7
"""Share of a memory's bandwidth that decoding reaches."""
_PREFILL_SHARE, _TRAIN_SHARE = 0.4, 0.25
"""Share of a maker's operations a second that reading a prompt, and a pass forward and back, reach; docs/capacity.md has measured ones."""
_OFFLOADED = 3.0
"""How much longer an update takes whose state crosses to the host and back."""
_DISK = 1e9
"""Bytes a second that a checkpoint is written with."""
_SYNC_SECONDS = 1.0
"""What handing over weights takes beside moving bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The work of one step."""

    episodes: int
    """Started in one step; all have to end before the update."""
    in_flight: int
    """Most at work at once."""
    horizon: int
    """Most turns of an episode."""
    mean_turns: float
    """Of an episode; at most ``horizon``."""
    prompt_tokens: float
    """Of the first context."""
    observation_tokens: float
    """Of each later observation."""
    response_tokens: float
    """Sampled in a turn."""
    failures: float = 0.0
    """Share of attempts that end in an infra error and are made again."""
    checkpoint_every: int = 25
    """Steps between checkpoints."""
    played: bool = True
    """False where a step learns from stored data: nothing is played, and nothing is sampled."""

    @property
    def attempts(self) -> float:
        """Attempts that all episodes of a step take, each of which fails with the same chance."""
        return self.episodes / (1 - min(self.failures, 0.99))

    @property
    def turns(self) -> float:
        """Of all attempts."""
        return self.attempts * self.mean_turns

    @property
    def sampled(self) -> float:
        """Tokens that a step samples; 0 where nothing is played."""
        return 0.0 if not self.played else self.turns * self.response_tokens

    @property
    def trajectory(self) -> float:
        """Tokens of one mean episode."""
        return self.prompt_tokens + self.mean_turns * (self.observation_tokens + self.response_tokens)

    @property
    def read(self) -> float:
        """Tokens that the policy is given in a step, cached or not: its context at each call."""
        if not self.played:
            return 0.0
        per_turn = self.observation_tokens + self.response_tokens
        return self.attempts * (self.mean_turns * self.prompt_tokens + per_turn * self.mean_turns * (self.mean_turns - 1) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Seconds of one job of each phase on one server of it."""

    env_reset: float
    env_step: float
    prefill_token: float
    """Of one token that is read, on one replica of the policy."""
    decode_fixed: float
    """Of one decoding step of a replica, whatever its batch: weights are read once."""
    decode_row: float
    """Added by each sequence of the batch."""
    update: float
    """Of the update of a step, on all devices that train."""
    weight_sync: float
    checkpoint: float
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where a phase's time is from, by its name; what is not named is assumed."""

    def decode_step(self, batch: float) -> float:
        """Seconds of one token for every sequence of a batch."""
        return self.decode_fixed + self.decode_row * batch

    def turn(self, load: Load, batch: float) -> float:
        """Seconds of the policy's part of a turn in a batch of that many: everybody's new tokens are read meanwhile, then all decode together."""
        return self.reading(load, batch) + load.response_tokens * self.decode_step(batch)

    def reading(self, load: Load, batch: float) -> float:
        """Of these, what reading takes. Only what is new is read; the first context is spread over an episode's turns."""
        return batch * (load.observation_tokens + load.prompt_tokens / load.mean_turns) * self.prefill_token


def is_measured(dialect: str) -> bool:
    """Whether the released server of a family was measured."""
    return dialect in _MEASURED_STEP_SECONDS


def env_step_seconds(dialect: str) -> float:
    """What one call of a server family takes where nobody measured the servers at hand."""
    return _MEASURED_STEP_SECONDS.get(dialect, _UNKNOWN_STEP_SECONDS) + _CALL_SECONDS


def assumed_services(
    shape: ModelShape, kind: GpuKind, layout: Layout, load: Load, *, dialect: str, passes: float, extra_passes: int, frozen: bool
) -> Services:
    """Times from a device's bandwidth and operations a second.

    Args:
        passes: times that a step's tokens go forward and back.
        extra_passes: further passes forward alone, of a reference or of old log-probabilities.
        frozen: the matrices learn nothing, only adapters or gains do, so that no gradients of matrices are computed.
    """
    number = 4 if layout.local else 2
    parallel = layout.tensor_parallel
    weights = number * shape.parameters / parallel
    cache = load.trajectory / 2 * shape.cache_bytes_per_token(number) / parallel
    bandwidth = kind.bandwidth * _BANDWIDTH_SHARE
    products = 2 * shape.parameters / parallel
    backward = (4 if frozen else 6) + (2 if layout.checkpointing else 0)
    tokens = load.episodes * load.trajectory
    operations = tokens * shape.parameters * (backward * passes + 2 * extra_passes)
    step = env_step_seconds(dialect)
    return Services(
        env_reset=step * 2,
        env_step=step,
        prefill_token=products / (kind.flops * _PREFILL_SHARE),
        decode_fixed=kind.token_seconds + weights / bandwidth,
        decode_row=max(cache / bandwidth, products / (kind.flops * _PREFILL_SHARE)),
        update=operations / (layout.trainers * kind.flops * _TRAIN_SHARE) * (_OFFLOADED if layout.offload else 1.0),
        weight_sync=0.0 if layout.local else _SYNC_SECONDS + number * shape.parameters / kind.link,
        checkpoint=12 * shape.parameters / (_DISK * max(1, layout.trainers // 8)),
    )
