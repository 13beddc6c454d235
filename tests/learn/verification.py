"""Random ragged steps through the trainer's own code and through ``reference.py``, and how far apart they are."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from agentgym_cli.learn.algorithms import algorithm_of
from agentgym_cli.learn.experience import Member
from agentgym_cli.learn.gather import Gathered, gather
from agentgym_cli.learn.local import OnlineTrainer
from agentgym_cli.recipe.schema.algorithms import GrpoSpec, OnlineSpec, PpoSpec, ReinforcePlusPlusSpec, RlooSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from tests.learn import reference
from tests.learn.reference import Episodes, Setting, Token
from tests.learn.tabular import Table, TabularModel, double_precision, probabilities, trajectory_of

SIZE = 4
TEMPERATURE = 0.8
GROUPS = 2
KL: Any = {"kl_coefficient": 0.3, "entropy_coefficient": 0.05}
CRITIC: Any = {"critic_learning_rate": 0.1, "critic_max_gradient_norm": 1e9}
CASES: dict[str, tuple[OnlineSpec, float | None, bool]] = {
    "grpo, as the paper": (GrpoSpec(group_size=4, **KL), None, False),
    "grpo, token mean, no std, clip-higher, filter": (
        GrpoSpec(group_size=4, average="token", normalize_std=False, clip_high=0.4, filter_zero_variance=True, kl_estimate="k2", **KL), None, False),
    "grpo, KL k3 in the reward, importance cap": (GrpoSpec(group_size=4, kl_place="reward", **KL), 1.5, False),
    "rloo, KL k1 in the reward": (RlooSpec(group_size=4, kl_place="reward", kl_estimate="k1", **KL), None, False),
    "rloo, KL k1 in the loss": (RlooSpec(group_size=4, average="token", kl_estimate="k1", **KL), None, False),
    "reinforce++, discount 0.9, rewards on turns": (ReinforcePlusPlusSpec(group_size=4, discount=0.9, **KL), None, True),
    "reinforce++, baseline of the group, importance cap": (ReinforcePlusPlusSpec(group_size=4, baseline="group", **KL), 2.0, False),
    "ppo, gae 0.9 / 0.8, rewards on turns": (PpoSpec(**CRITIC, discount=0.9, gae_lambda=0.8, **KL), None, True),
    "ppo, no whitening, no value clip, KL k2 in the reward": (
        PpoSpec(
            **CRITIC, gae_lambda=0.5, whiten=False, value_clip=None, average="episode", kl_place="reward", kl_estimate="k2", **KL
        ),
        1.5,
        True,
    ),
}  # fmt: skip
"""Algorithm, cap of the importance weight, and whether turns are paid one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Largest absolute differences of one case."""

    advantage: float
    loss: float
    gradient: float
    """Of the trainer's autograd from central differences of the reference's loss."""
    critic_loss: float | None
    critic_gradient: float | None

    def beside(self, other: Difference) -> Difference:
        """The larger of both, number by number."""
        both = {name: (getattr(self, name), getattr(other, name)) for name in self.__slots__}
        larger: Any = {name: None if None in pair else max(pair) for name, pair in both.items()}
        return Difference(**larger)


def compare(name: str, seed: int) -> Difference:
    """One random step of a case, both ways, in float64."""
    spec, cap, by_turn = CASES[name]
    draw = random.Random(seed)
    with double_precision():
        start, frozen = random_table(draw), random_table(draw)
        values = [draw.gauss(0, 1) for _ in range(SIZE)] if isinstance(spec, PpoSpec) else [0.0] * SIZE
        setting = Setting(spec=spec, temperature=TEMPERATURE, cap=cap, start=start, reference=frozen, values=values)
        members, episodes = random_step(draw, setting, by_turn=by_turn)
        trainer = make_trainer(setting)
        gathered = gather(members, spec, algorithm_of(spec), trainer._judges, step=1)
        metrics = trainer.step(members, step=1)
        grad = trainer.model.lm_head.weight.grad
        assert grad is not None
        assert metrics.loss is not None
        found = Difference(
            advantage=advantage_difference(gathered, reference.advantages(setting, episodes)),
            loss=abs(metrics.loss - reference.loss(start, setting, episodes)),
            gradient=float((grad - slopes(lambda table: reference.loss(table, setting, episodes), start)).abs().max()),
            critic_loss=None,
            critic_gradient=None,
        )
        return found if trainer.critic is None else with_critic(found, trainer, metrics.critic_loss, setting, episodes)


def with_critic(found: Difference, trainer: OnlineTrainer, loss: float | None, setting: Setting, episodes: Episodes) -> Difference:
    assert trainer.critic is not None
    assert loss is not None
    grad = trainer.critic.critic.head.weight.grad
    assert grad is not None
    expected = slopes(lambda rows: reference.critic_loss(rows[0], setting, episodes), [list(setting.values)])
    return Difference(
        advantage=found.advantage,
        loss=found.loss,
        gradient=found.gradient,
        critic_loss=abs(loss - reference.critic_loss(setting.values, setting, episodes)),
        critic_gradient=float((grad - expected).abs().max()),
    )


def make_trainer(setting: Setting) -> OnlineTrainer:
    """A trainer at the setting's policy, reference and critic; one update of everything."""
    train = TrainSpec(steps=1, tasks_per_step=1, learning_rate=1e-3, max_gradient_norm=1e9, algorithm=setting.spec, importance_cap=setting.cap)
    trainer = OnlineTrainer(TabularModel(setting.start), train, temperature=setting.temperature, seed=1, pass_tokens=24)  # type: ignore[arg-type]
    with torch.no_grad():
        if trainer.reference is not None:
            trainer.reference.lm_head.weight.copy_(torch.tensor(setting.reference))
        if trainer.critic is not None:
            trainer.critic.critic.head.weight.copy_(torch.tensor([list(setting.values)]))
    return trainer


def random_table(draw: random.Random) -> Table:
    return [[draw.gauss(0, 1) for _ in range(SIZE)] for _ in range(SIZE)]


def random_step(draw: random.Random, setting: Setting, *, by_turn: bool) -> tuple[list[list[Member]], Episodes]:
    """Groups of four: ragged, of several turns, with members without a score, and one group whose members are all paid alike."""
    members: list[list[Member]] = []
    episodes: list[list[list[Token] | None]] = []
    for number in range(GROUPS):
        pairs = [random_member(draw, setting, by_turn=by_turn, reward=1.0 if number == 1 else None) for _ in range(4)]
        scored = [draw.random() < 0.85 for _ in pairs]
        members.append([m if keep else Member(reward=None, trajectory=m.trajectory) for (m, _), keep in zip(pairs, scored, strict=True)])
        episodes.append([tokens if keep else None for (_, tokens), keep in zip(pairs, scored, strict=True)])
    return members, episodes


def random_member(draw: random.Random, setting: Setting, *, by_turn: bool, reward: float | None) -> tuple[Member, list[Token]]:
    turns = [("o" * draw.randint(1, 3), "a" * draw.randint(1, 4)) for _ in range(draw.randint(1, 3))]
    spoken = "".join(seen + said for seen, said in turns) + "o" * draw.randint(0, 2)
    ids = [draw.randrange(SIZE) for _ in spoken]
    places = [place for place, each in enumerate(spoken) if each == "a"]
    # A sampler that is not quite the policy, so that ratios, clips and weights have something to do.
    sampled = [math.log(probabilities(setting.start, ids[at - 1], TEMPERATURE)[ids[at]]) + _noise(draw) for at in places]
    ends, last = [], 0
    for seen, said in turns:
        last += len(seen) + len(said)
        ends.append(last - 1)
    paid = {ends[-1]: draw.gauss(0, 1) if reward is None else reward}
    if by_turn:
        paid |= {end: draw.gauss(0, 0.5) for end in ends[:-1]}
    total = sum(paid.values())
    member = Member(reward=total, trajectory=trajectory_of(ids, spoken, sampled), payments=tuple(paid.items()) if by_turn else None)
    tokens = [Token(before=ids[at - 1], token=ids[at], sampled=each, reward=paid.get(at, 0.0)) for at, each in zip(places, sampled, strict=True)]
    return member, tokens


def _noise(draw: random.Random) -> float:
    """Nats between policy and sampler, none that puts a ratio on the edge of a clip: a loss has no slope there to compare with."""
    while True:
        noise = draw.gauss(0, 0.3)
        if all(abs(math.exp(-noise) - edge) > 1e-3 for edge in (0.8, 1.2, 1.4)):
            return noise


def advantage_difference(gathered: Gathered, expected: list[list[list[float] | None]]) -> float:
    """Largest difference over all action tokens of all examples, which have to be the same ones."""
    wanted = [each for row in expected for each in row if each is not None]
    assert len(wanted) == len(gathered.examples)
    largest = 0.0
    for example, gains in zip(gathered.examples, wanted, strict=True):
        got = example.advantage if isinstance(example.advantage, tuple) else (example.advantage,) * len(gains)
        largest = max(largest, *(abs(left - right) for left, right in zip(got, gains, strict=True)))
    return largest


def slopes(loss: Callable[[Table], float], at: Table, width: float = 1e-5) -> torch.Tensor:
    """Central differences by each number of a table."""
    found = torch.zeros(len(at), len(at[0]))
    for row in range(len(at)):
        for column in range(len(at[0])):
            ends = []
            for step in (width, -width):
                moved = [list(line) for line in at]
                moved[row][column] += step
                ends.append(loss(moved))
            found[row, column] = (ends[0] - ends[1]) / (2 * width)
    return found
