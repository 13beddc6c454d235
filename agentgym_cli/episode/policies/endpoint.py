"""The policy behind a server of OpenAI's protocol: an episode is a conversation with it. Nobody waits for anybody else."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.env.contract import EnvSession
from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.policies.endpoint_call import LlmServer, Patience
from agentgym_cli.episode.policies.endpoint_check import Manner
from agentgym_cli.episode.policies.endpoint_counts import believed, most_read
from agentgym_cli.episode.policies.endpoint_presence import Presence
from agentgym_cli.episode.policies.endpoint_reply import Said, read_said
from agentgym_cli.episode.policies.endpoint_transcript import ChatTranscript, ExactTokens, IdsTranscript, Transcript, Wanted
from agentgym_cli.episode.policies.failures import PolicyProtocol, PolicyUnavailable
from agentgym_cli.episode.policies.protocol import ContextFull, PolicyReply
from agentgym_cli.episode.policies.token_turns import MAX_CHARS_PER_TOKEN
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import ScheduledEpisode, Trajectory
from agentgym_cli.recipe.schema.world import BudgetsSpec

OUTAGE_SHARE = 0.9
"""Share of a policy call's deadline after which an outage is the server's and no slowness of the policy."""
LEAST_ROOM = 16
"""Tokens of a response below which a server's refusal of a long prompt is taken as a full context."""
_SHRINK = 4


class EndpointPolicy:
    """Plays every episode at once.

    Args:
        manner: how the server is asked, as the check before the run found it.
        tokens: lays out prompts for ``completions``; None for ``chat``.
        calls: take calls of tools as text.
        retry_seconds: how long one call goes on asking a server that is busy, broken or away.
        give_up_after: such calls in a row after which a server that does not even list its models ends the run.
    """

    def __init__(
        self,
        server: LlmServer,
        manner: Manner,
        *,
        system_prompt: str,
        budgets: BudgetsSpec,
        tokens: TurnTokens | None,
        retry_seconds: float,
        give_up_after: int,
        calls: bool = False,
    ) -> None:
        self.name = f"{manner.model} at {server.url}"
        self.notes: dict[str, str] = {}
        """What a reader of the run must know of the replies, each once, by a short name."""
        self._server = server
        self._presence = Presence(server, give_up_after=give_up_after)
        self._manner = manner
        self._system_prompt = system_prompt
        self._budgets = budgets
        self._tokens = tokens
        self._calls = calls
        self._outage_seconds = min(retry_seconds, OUTAGE_SHARE * budgets.policy_call_seconds)
        self._context = min(budgets.context_tokens, manner.context or budgets.context_tokens)

    def waves(self, episodes: Sequence[ScheduledEpisode]) -> list[list[ScheduledEpisode]]:
        """One list: nobody waits."""
        return [list(episodes)]

    async def open(self, episode: ScheduledEpisode, *, seed: int, session: EnvSession, clock: EpisodeClock) -> EndpointEpisode:
        """Begin an empty conversation."""
        # The episode began at most one env call earlier.
        end = clock.time() + self._budgets.episode_seconds - self._budgets.env_call_seconds
        return EndpointEpisode(self, self._transcript(), seed=seed, clock=clock, end=end)

    def note(self, name: str, text: str) -> None:
        """Keep one note."""
        self.notes.setdefault(name, text)

    def patience(self, *, seed: int, clock: EpisodeClock, end: float) -> Patience:
        """For a call that begins now, of an episode that may go on until ``end``: an outage must end before a deadline makes it a failure."""
        until = min(clock.time() + self._outage_seconds, end)
        return Patience(clock=clock, until=until, seconds=self._budgets.policy_call_seconds, seed=seed)

    async def say(self, wanted: Wanted, patience: Patience) -> Said:
        """One response. Raises ContextFull, PolicyUnavailable, PolicyProtocol, PolicyError; ServersLost where the server stays away.

        A server that refuses prompt and response together is asked for a shorter response before the context counts as full.
        """
        room = self._room(wanted)
        while True:
            fields: dict[str, Json] = {**self._manner.fields(room, patience.seed), **wanted.fields}
            try:
                body = await self._server.ask(self._manner.path, fields, tokens=wanted.tokens + room, patience=patience)
            except ContextFull:
                if room <= LEAST_ROOM:
                    raise
                room = max(LEAST_ROOM, room // _SHRINK)
                continue
            except PolicyUnavailable as failure:
                with patience.clock.held():
                    await self._presence.missed(failure)
                raise
            self._presence.answered()
            where = f"POST {self._server.url}{self._manner.path}"
            said = read_said(body, api=self._manner.api, calls=self._calls, where=where, vocabulary=self._manner.vocabulary)
            return believed(_bounded(said, room, where), wanted, model_context=self._manner.context, budget=self._context)

    def tokens(self, said: Said, wanted: Wanted) -> tuple[int, int]:
        """What a turn read and sampled. What a server that otherwise counts does not say is the most that it can be, for the run's budget."""
        read, sampled = len(said.prompt_ids) if said.prompt_ids is not None else said.prompt_tokens, said.response_tokens
        if read is not None and sampled is not None:
            return read, sampled
        if not self._manner.counts:
            self.note("usage", "replies do not count tokens, so reports count none where token ids are missing too")
            return read or wanted.tokens, sampled or 0
        self.note("usage", "some replies do not count their tokens: the most that these can be stand for them")
        return most_read(wanted) if read is None else read, self._room(wanted) if sampled is None else sampled

    def _room(self, wanted: Wanted) -> int:
        return min(self._budgets.response_tokens, self._context - wanted.tokens)

    def _transcript(self) -> Transcript:
        exact = ExactTokens(drawn=self._manner.drawn, note=self.note) if self._manner.token_ids else None
        if self._tokens is None:
            return ChatTranscript(self._system_prompt, context=self._context, exact=exact)
        return IdsTranscript(self._tokens, self._system_prompt, context=self._context, exact=exact)


def _bounded(said: Said, room: int, where: str) -> Said:
    """A response as long as ``room`` tokens can be. Raises PolicyProtocol for a server that ignores its limit."""
    most = MAX_CHARS_PER_TOKEN * room
    if len(said.text) > most or len(said.token_ids or ()) > room:
        got = f"{len(said.token_ids)} tokens" if said.token_ids is not None else f"{len(said.text)} characters"
        raise PolicyProtocol(f"{where}: expected at most {room} tokens, which are at most {most} characters, got {got}")
    return said


class EndpointEpisode:
    """One conversation."""

    def __init__(self, policy: EndpointPolicy, transcript: Transcript, *, seed: int, clock: EpisodeClock, end: float) -> None:
        self._policy = policy
        self._transcript = transcript
        self._seed = seed
        self._clock = clock
        self._end = end

    async def act(self, observation: str) -> PolicyReply:
        """Ask, wait out what passes, keep what came as it came."""
        wanted = self._transcript.ask(observation)
        said = await self._policy.say(wanted, self._policy.patience(seed=self._seed, clock=self._clock, end=self._end))
        read, sampled = self._policy.tokens(said, wanted)
        self._transcript.heard(said)
        return PolicyReply(text=said.text, response_tokens=sampled, context_tokens=read, cut=said.cut)

    def trajectory(self) -> Trajectory | None:
        """What was read and sampled, where the server's ids make it exact."""
        return self._transcript.trajectory()

    async def close(self) -> None:
        """Nothing to release: a request in flight ends with its call."""
