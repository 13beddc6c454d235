"""An oracle's episode as a trajectory to learn from. Knows no tensors."""

from __future__ import annotations

from agentgym_cli.episode.actions import ActionFormat, action_text
from agentgym_cli.episode.tokens import TrajectoryBuilder, TurnTokens
from agentgym_cli.episode.types import AttemptResult, Outcome, Trajectory


def demonstration(result: AttemptResult, layout: TurnTokens, *, system_prompt: str, action_format: ActionFormat) -> Trajectory | None:
    """The tokens that a policy would have sampled in this episode, its stop tokens included; None unless the episode succeeded.

    Log-probabilities are 0: nobody sampled these tokens.
    """
    if result.outcome is not Outcome.SUCCESS:
        return None
    builder = TrajectoryBuilder()
    for number, turn in enumerate(result.turns):
        first = number == 0
        builder.add_context(layout.initial(system_prompt, turn.observation) if first else layout.next(turn.observation, stop_sampled=True))
        said = layout.action(action_text(turn.action, action_format))
        builder.add_sampled(said, [0.0] * len(said))
    return builder.build(policy_version=0)
