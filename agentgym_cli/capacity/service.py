"""How long each phase of a step takes a single server of it: from assumptions that are named, or from what a run or a probe measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GpuKind
from agentgym_cli.capacity.layout import Layout

TIME_ERROR = 2.0
"""Factor that measured times may lie above or below those from assumptions."""
_MEASURED_STEP_SECONDS: Mapping[str, float] = {"textcraft": 0.0007, "babyai": 0.006, "sciworld": 0.043}
"""Mean of one call against the family's released server, one session at a time."""
_UNKNOWN_STEP_SECONDS = 0.1
RESET_CALLS = 2
"""Calls that a reset takes as long as, where nobody measured one."""
_CALL_SECONDS = 0.001
"""Of one call beside its server: client, sockets, parsing."""
_BANDWIDTH_SHARE = 0.7
"""Share of a memory's bandwidth that decoding reaches."""
_PREFILL_SHARE, _TRAIN_SHARE = 0.4, 0.25
"""Share of a maker's operations a second that reading a prompt, and a pass forward and back, reach; docs/capacity.md has measured ones."""
_TO_HOST = 20e9
"""Bytes a second between a GPU and the memory of its machine, one way."""
_HOST_MEMORY = 50e9
"""Bytes a second at which a machine reads and writes what it updates by itself."""
_HOST_UPDATE = 28
"""Bytes of a number that AdamW reads (weight, gradient, two moments) and writes (all but the gradient), in float32."""
_DISK = 1e9
"""Bytes a second that a checkpoint is written with."""
_SUM_SECONDS = 20e-6
"""What a small sum over the devices of one machine takes, whatever its size."""
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
    """Share of attempts that end in an infra error, each at a turn of its own."""
    most_attempts: int = 3
    """At one episode; the last one that fails leaves it without a result."""
    checkpoint_every: int = 25
    """Steps between checkpoints."""
    played: bool = True
    """False where a step learns from stored data: nothing is played, and nothing is sampled."""

    @property
    def attempts(self) -> float:
        """Attempts at all episodes of a step: 1 + f + f^2 + ... at each, as long as all before it failed."""
        share, most = self.failures, self.most_attempts
        return self.episodes * (most if share >= 1 else (1 - share**most) / (1 - share))

    @property
    def turns(self) -> float:
        """Of all attempts."""
        failed = self.failures * self.attempts
        return failed * (self.mean_turns + 1) / 2 + (self.attempts - failed) * self.mean_turns

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
        failed, mean = self.failures * self.attempts, self.mean_turns
        # An attempt that fails at turn k of n, each as likely: k (k - 1) / 2 is (n^2 - 1) / 6 on average.
        grown = (self.attempts - failed) * mean * (mean - 1) / 2 + failed * (mean**2 - 1) / 6
        return self.turns * self.prompt_tokens + (self.observation_tokens + self.response_tokens) * grown


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What an update does with a step's trajectories."""

    passes: float
    """Times that they go forward and back; a critic's are counted too."""
    extra_passes: int
    """Further passes forward alone: of a reference, of a critic for its values, of old log-probabilities."""
    frozen: bool
    """The matrices learn nothing, only adapters or gains do, so that no gradients of matrices are computed or exchanged."""
    updates: int
    """Optimizer updates of a step."""
    learns: int = 0
    """Numbers that learn, of all networks; asked for where they are offloaded."""
    networks: int = 1
    """Networks that learn."""
    reference: bool = False
    """Whether a frozen copy in the host's memory is asked."""
    pass_tokens: int
    """Most tokens of one pass on one device."""
    saved: int
    """Bytes of a checkpoint."""


NOTHING = Learning(passes=0.0, extra_passes=0, frozen=False, updates=1, pass_tokens=1, saved=0)
"""Of a run that trains nothing."""


def assumed_services(shape: ModelShape, kind: GpuKind, layout: Layout, load: Load, *, dialect: str, learning: Learning) -> Services:
    """Times from a device's bandwidth and operations a second, right within ``TIME_ERROR``.

    A token's products take 2 operations a number of the matrices (arXiv 2001.08361, section 2.1), and attention 4 a layer, number of its queries and
    token of context (arXiv 2204.02311, appendix B), of which causal attention computes half on average.
    """
    number = 4 if layout.local else 2
    parallel = layout.tensor_parallel
    rate = (kind.float32 if layout.local else kind.flops) * _PREFILL_SHARE
    bandwidth = kind.bandwidth * _BANDWIDTH_SHARE
    cache = load.trajectory / 2 * shape.cache_bytes_per_token(number) / parallel
    # Behind half of an episode on average, whose tokens are all looked at.
    forward = (2 * shape.multiplied + 4 * shape.layers * shape.width * load.trajectory / 2) / parallel
    exchanged, waited = _reduced(shape, kind, parallel)
    step = env_step_seconds(dialect)
    training = learning.passes > 0
    return Services(
        env_reset=step * RESET_CALLS,
        env_step=step,
        prefill_token=forward / rate + exchanged,
        decode_fixed=kind.token_seconds + number * shape.parameters / parallel / bandwidth + waited,
        decode_row=max(cache / bandwidth, forward / rate) + exchanged,
        update=_update(shape, kind, layout, load, learning) if training else 0.0,
        weight_sync=0.0
        if layout.local or layout.placement == "one after the other" or not training
        else _SYNC_SECONDS + number * shape.parameters / layout.wire(kind),
        checkpoint=learning.saved / (_DISK * layout.machines),
    )


def _update(shape: ModelShape, kind: GpuKind, layout: Layout, load: Load, learning: Learning) -> float:
    """Seconds of all passes over a step's trajectories: forward once, back twice that (once where matrices are frozen), and forward again with
    checkpointing. State that is sharded is gathered and spread meanwhile, and brought from the host; the longest of these is what it takes."""
    tokens = load.episodes * load.trajectory
    forward = 2 * shape.multiplied + 2 * shape.layers * shape.width * load.trajectory
    through = (2 if learning.frozen else 3) + (1 if layout.checkpointing else 0)
    rate = (kind.flops if layout.half else kind.float32) * _TRAIN_SHARE
    computed = tokens * forward * (through * learning.passes + learning.extra_passes) / (layout.trainers * rate)
    passes = max(learning.updates, ceil(tokens / (layout.trainers * learning.pass_tokens)))
    moved = passes * (learning.passes * _exchanged(shape, layout, frozen=learning.frozen) + learning.extra_passes * _gathered(shape, layout))
    brought = passes * _brought(shape, layout, learning) / _TO_HOST
    return max(computed, moved / layout.wire(kind), brought) + _put_away(shape, layout, learning)


def _brought(shape: ModelShape, layout: Layout, learning: Learning) -> float:
    """Bytes that cross between each device and its host in one pass: a reference's share in float32; where state is streamed, also that of every
    network twice, once forward and once back, once more for a pass forward alone, and the gradients of what learns."""
    streamed = layout.offload == "streamed"
    weights = int(learning.reference) + (2 * learning.passes + learning.extra_passes - int(learning.reference) if streamed else 0)
    gradients = learning.learns / learning.networks * learning.passes if streamed else 0
    return 4 * (weights * shape.parameters + gradients) / layout.trainers


def _put_away(shape: ModelShape, layout: Layout, learning: Learning) -> float:
    """Seconds in which state goes to the host and comes back, once a step: weights for the update and for the pass before it, moments for the update;
    or in which the host updates what is streamed."""
    if layout.offload == "streamed":
        return learning.updates * _HOST_UPDATE * learning.learns / layout.machines / _HOST_MEMORY
    times = {"none": (0, 0), "optimizer": (0, 2), "all": (4, 2)}[layout.offload]
    size = 4 * times[0] * learning.networks * shape.parameters + 8 * times[1] * learning.learns
    return size / layout.trainers / _TO_HOST


def _gathered(shape: ModelShape, layout: Layout) -> float:
    """Bytes that each device passes on so that all have all weights in bfloat16 once: (n - 1) / n of them (arXiv 1910.02054, section 7)."""
    return 2 * shape.parameters * (layout.trainers - 1) / layout.trainers


def _exchanged(shape: ModelShape, layout: Layout, *, frozen: bool) -> float:
    """The same of one pass forward and back: weights are gathered twice, gradients in float32 are added up and spread once."""
    return (2 if frozen else 4) * _gathered(shape, layout)


def _reduced(shape: ModelShape, kind: GpuKind, parallel: int) -> tuple[float, float]:
    """Seconds that a token, and a whole decoding step, wait for sums over tensor parallel devices: two a layer of the hidden state in bfloat16, each
    passed on 2 (n - 1) / n times (arXiv 1909.08053, section 3). All of them are in one machine."""
    if parallel == 1:
        return 0.0, 0.0
    return 2 * shape.layers * 2 * (parallel - 1) / parallel * 2 * shape.hidden / kind.link, 2 * shape.layers * _SUM_SECONDS
