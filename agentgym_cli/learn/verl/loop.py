"""Our episode loop as verl's agent loop: verl asks for a row's episode, a site plays it, token in, token out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from ray.exceptions import RayError
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from agentgym_cli.episode.policies.failures import PolicyProtocol, PolicyUnavailable
from agentgym_cli.episode.policies.sampled import Sampled
from agentgym_cli.learn.verl.seam import Played, Site, opener

_SITES: dict[str, asyncio.Future[Site]] = {}
"""Of this process, by setup: every worker has one event loop, and all of its episodes share a site."""


class EpisodeLoop(AgentLoopBase):
    """What verl makes for each trajectory; ``site`` and ``setup`` are from the file that names our loop."""

    def __init__(self, *args: Any, site: str, setup: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._site, self._setup = site, setup

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput | list[AgentLoopOutput]:
        """Play one episode; an empty list where nothing can be learned from it, which verl leaves out of the batch."""
        site = await _site(self._site, self._setup)
        row = site.row(str(kwargs["rows"]), int(kwargs["place"]))
        sampler = VerlSampler(self.server_manager, sampling_params)
        played = await site.play(row, member=int(kwargs["session_id"]), step=int(kwargs["global_steps"]), sampler=sampler)
        return [] if played is None else output_of(played)


class VerlSampler:
    """One episode's requests to verl's servers; they keep to one server, which has the context cached."""

    def __init__(self, servers: Any, params: Mapping[str, Any]) -> None:
        self._servers, self._params = servers, dict(params)
        self._request = uuid4().hex

    async def sample(self, context: Sequence[int], *, most: int, stop_ids: frozenset[int]) -> Sampled:
        """See ``Sampler``."""
        params = {**self._params, "max_tokens": most, "stop_token_ids": sorted(stop_ids)}
        try:
            said = await self._servers.generate(request_id=self._request, prompt_ids=list(context), sampling_params=params)
        except RayError as err:
            raise PolicyUnavailable(f"verl's server: expected a response, got {type(err).__name__}: {str(err)[:500]}") from err
        interrupted, version = said.stop_reason == "aborted", said.extra_fields.get("global_steps")
        if version is None or (said.log_probs is None and said.token_ids):
            raise PolicyProtocol("verl's server: expected log-probabilities and the step of the weights, got none")
        return Sampled(token_ids=tuple(said.token_ids), logprobs=tuple(said.log_probs or ()), version=int(version), interrupted=interrupted)


def output_of(played: Played) -> AgentLoopOutput:
    """A trajectory as verl takes it: the prompt ends before the first action token, the response with the last."""
    item = played.trajectory
    begin = item.action_mask.index(True)
    versions = [version for version, _ in item.runs]
    return AgentLoopOutput(
        prompt_ids=list(item.token_ids[:begin]),
        response_ids=list(item.token_ids[begin:]),
        response_mask=[int(sampled) for sampled in item.action_mask[begin:]],
        response_logprobs=list(item.logprobs[begin:]),
        reward_score=played.reward,
        num_turns=2 * played.turns,
        metrics=AgentLoopMetrics(),
        extra_fields={
            "turn_scores": [],
            "tool_rewards": [],
            "min_global_steps": min(versions),
            "max_global_steps": max(versions),
            "policy_versions": [list(run) for run in item.runs],
            "reward_extra_info": {},
        },
    )


async def _site(name: str, setup: str) -> Site:
    if setup not in _SITES:
        _SITES[setup] = asyncio.ensure_future(opener(name)(Path(setup)))
    return await asyncio.shield(_SITES[setup])
