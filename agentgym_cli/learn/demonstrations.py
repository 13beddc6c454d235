"""Episodes as trajectories to learn from: an oracle's, a stored one's, or a conversation of a file. Knows no tensors."""

from __future__ import annotations

from agentgym_cli.episode.actions import ActionFormat, action_text
from agentgym_cli.episode.tokens import TrajectoryBuilder, TurnTokens
from agentgym_cli.episode.types import AttemptResult, Outcome, Trajectory
from agentgym_cli.store.importing.conversations import Conversation, Spoken


def demonstration(result: AttemptResult, layout: TurnTokens, *, system_prompt: str, action_format: ActionFormat) -> Trajectory | None:
    """The tokens that a policy would have sampled in this episode, its stop tokens included; None unless the episode succeeded.

    Log-probabilities are 0: nobody sampled these tokens.
    """
    if result.outcome is not Outcome.SUCCESS:
        return None
    said = tuple(Spoken(turn.observation, action_text(turn.action, action_format), True) for turn in result.turns)
    return laid_out(Conversation(where=result.episode.id, number=result.episode.task.index, turns=said), layout, system_prompt=system_prompt)


def laid_out(conversation: Conversation, layout: TurnTokens, *, system_prompt: str) -> Trajectory | None:
    """A conversation in the turns of a policy, with the replies that are learned as its actions; None where none is.

    A reply that is not learned stands in the context like an observation. Log-probabilities are 0: nobody sampled these tokens.
    """
    builder = TrajectoryBuilder()
    for number, turn in enumerate(conversation.turns):
        first = number == 0
        builder.add_context(layout.initial(system_prompt, turn.observation) if first else layout.next(turn.observation, stop_sampled=True))
        said = layout.action(turn.text)
        if turn.learned:
            builder.add_sampled(said, [0.0] * len(said))
        else:
            builder.add_context(said)
    return builder.build(policy_version=0)
