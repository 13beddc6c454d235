"""What a server samples, piece by piece: new weights in the middle of a response neither lose a token nor cost the episode time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentgym_cli.episode.loop import run_episode
from agentgym_cli.episode.policies.sampled import Sampled, SampledPolicy
from agentgym_cli.episode.policies.token_turns import TokenTurns
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import AttemptResult, StopReason
from tests.episode.fakes import BUDGETS, PLAIN, FakeEnv, make_episode, make_rules, solve_in
from tests.episode.virtual_time import run_virtual

TOKENS = TurnTokens.from_file(Path("recipes/models/textcraft_laptop/tokenizer.json"), "words")
INVENTORY = tuple(TOKENS.action("inventory"))
assert len(INVENTORY) == 2, "a word and the stop"


class Server:
    """Gives the pieces that it was told to, one for each request."""

    def __init__(self, *pieces: Sampled) -> None:
        self._pieces = list(pieces)
        self.asked: list[tuple[tuple[int, ...], int]] = []

    async def sample(self, context: Sequence[int], *, most: int, stop_ids: frozenset[int]) -> Sampled:
        self.asked.append((tuple(context), most))
        return self._pieces.pop(0)


def piece(ids: Sequence[int], version: int, *, interrupted: bool = False) -> Sampled:
    return Sampled(token_ids=tuple(ids), logprobs=(-0.25 * version,) * len(ids), version=version, interrupted=interrupted)


def play(server: Server, *, turns: int) -> AttemptResult:
    policy = SampledPolicy(server, TokenTurns(TOKENS, system_prompt="", context=64, response=8), name="served")
    rules, env = make_rules(), FakeEnv(answer=solve_in(turns))
    playing = run_episode(make_episode(), attempt=1, seed=7, policy=policy, env=env, rules=rules, action_rule=PLAIN, budgets=BUDGETS)
    return run_virtual(playing)


def test_an_interrupted_response_goes_on_behind_its_own_tokens() -> None:
    server = Server(piece(INVENTORY[:1], 3, interrupted=True), piece([], 3, interrupted=True), piece(INVENTORY[1:], 4))
    result = play(server, turns=1)
    first, again, last = server.asked
    assert again == last == ((*first[0], INVENTORY[0]), first[1] - 1)
    assert result.turns[0].text == "inventory" and not result.turns[0].cut
    trajectory = result.trajectory
    assert trajectory is not None
    assert (trajectory.policy_version, trajectory.versions) == (3, ((3, 1), (4, 1)))
    assert trajectory.logprobs[-2:] == (-0.75, -1.0)


def test_versions_are_told_apart_by_runs_of_tokens_over_all_turns() -> None:
    server = Server(piece(INVENTORY, 3), piece(INVENTORY[:1], 3, interrupted=True), piece(INVENTORY[1:], 5), piece(INVENTORY, 5))
    trajectory = play(server, turns=3).trajectory
    assert trajectory is not None
    assert (trajectory.policy_version, trajectory.versions, trajectory.runs) == (3, ((3, 3), (5, 3)), ((3, 3), (5, 3)))
    assert sum(trajectory.action_mask) == 6


def test_one_version_of_all_tokens_is_kept_as_one_number() -> None:
    trajectory = play(Server(piece(INVENTORY, 2), piece(INVENTORY, 2)), turns=2).trajectory
    assert trajectory is not None
    assert (trajectory.policy_version, trajectory.versions, trajectory.runs) == (2, (), ((2, 4),))


def test_waiting_for_new_weights_is_no_time_of_the_episode() -> None:
    # Half a second between two requests: 1000 of them are more than the 60 s of a policy call and the 300 s of an episode.
    server = Server(*(piece([], 3, interrupted=True) for _ in range(1000)), piece(INVENTORY, 4))
    result = play(server, turns=1)
    assert result.stop is StopReason.DONE
    assert result.policy_seconds == pytest.approx(0.0)
    assert result.trajectory is not None and result.trajectory.policy_version == 4


def test_a_response_that_was_interrupted_at_its_last_token_is_over() -> None:
    server = Server(piece(INVENTORY, 3, interrupted=True))
    result = play(server, turns=1)
    assert len(server.asked) == 1 and not result.turns[0].cut


def test_a_server_that_gives_no_token_is_not_what_was_agreed() -> None:
    result = play(Server(piece([], 3)), turns=1)
    assert (result.stop, result.trajectory) == (StopReason.POLICY_PROTOCOL, None)
