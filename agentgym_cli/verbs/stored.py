"""Stored data that a run learns from: read, checked for what it is and against the evaluation splits, before anything is started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from agentgym_cli.episode.types import Outcome, Task, Trajectory
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.freeze import Frozen
from agentgym_cli.recipe.frozen_file import parse_frozen
from agentgym_cli.recipe.manifest import TaskRow
from agentgym_cli.recipe.overlap import overlap
from agentgym_cli.recipe.schema.algorithms import AgentEvolSpec, DpoSpec, SftSpec
from agentgym_cli.recipe.schema.stored import AgentTrajSource, EpisodePairsSource, EpisodesSource, PairsFileSource
from agentgym_cli.store.importing.conversations import Conversation, Spoken, agenttraj_conversations, pairs_of_file
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord, RunRecord, ScheduledRecord
from agentgym_cli.verbs.history import Past
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress

_EVALUATIONS = ("eval_before/", "eval_during/", "eval_after/")
"""How the episodes begin that a training run judges itself by; they are never learned."""
_LAST = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEpisode:
    """An episode that somebody played before."""

    conversation: Conversation
    digest: str
    """Of the task's first observation; '' when nobody knows."""
    reward: float | None = None
    """Return; None where the source says none."""
    success: bool = True
    trajectory: Trajectory | None = None
    """Its tokens as they were sampled, where they were kept and mean the same here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """All that a run learns from which is there before it starts."""

    demonstrations: tuple[StoredEpisode, ...] = ()
    candidates: tuple[tuple[StoredEpisode, ...], ...] = ()
    """Scored episodes to make pairs of, by source."""
    pairs: tuple[tuple[StoredEpisode, StoredEpisode], ...] = ()
    """Pairs of files, the better episode first."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Episodes that were not taken, by reason."""

    @property
    def episodes(self) -> Iterator[StoredEpisode]:
        """Every episode that may be learned."""
        yield from self.demonstrations
        for source in (*self.candidates, *self.pairs):
            yield from source


def read_stored(prepared: Prepared, progress: Progress) -> Stored:
    """Everything that the recipe's algorithm names, checked. An online algorithm reads nothing.

    Raises:
        RecipeError: a source is no such file or run, is of another environment or action format, or shares tasks with an evaluation split that
            ``tasks.allow_overlap`` does not name.
    """
    algorithm = None if prepared.run.train is None else prepared.run.train.algorithm
    if isinstance(algorithm, SftSpec | AgentEvolSpec):
        stored = _demonstrations(algorithm, prepared)
    elif isinstance(algorithm, DpoSpec):
        stored = _preferences(algorithm, prepared)
    else:
        return Stored()
    _refuse_contaminated(stored, prepared, progress)
    return stored


def _demonstrations(algorithm: SftSpec | AgentEvolSpec, prepared: Prepared) -> Stored:
    found: list[StoredEpisode] = []
    left_out: dict[str, int] = {}
    for number, source in enumerate(algorithm.demonstrations):
        where = f"train.algorithm.demonstrations[{number}]"
        if isinstance(source, AgentTrajSource):
            shown = [_of_file(each) for each in agenttraj_conversations(_path(source.path, prepared, where), prepared.dialect.name)]
        elif isinstance(source, EpisodesSource):
            played = run_episodes(_path(source.path, prepared, where), prepared.frozen, where=where)
            shown = [each for each in played if (each.success if source.at_least is None else (each.reward or 0.0) >= source.at_least)]
            left_out["below_threshold"] = left_out.get("below_threshold", 0) + len(played) - len(shown)
        else:
            continue
        if not shown:
            raise RecipeError(f"{where}: expected demonstrations, got none in {source.path}", "name another source, or lower its at_least")
        found += shown
    return Stored(demonstrations=tuple(found), left_out=left_out)


def _preferences(algorithm: DpoSpec, prepared: Prepared) -> Stored:
    pairs: list[tuple[StoredEpisode, StoredEpisode]] = []
    candidates: list[tuple[StoredEpisode, ...]] = []
    for number, source in enumerate(algorithm.pairs):
        where = f"train.algorithm.pairs[{number}]"
        if isinstance(source, PairsFileSource):
            file = _path(source.path, prepared, where)
            read = [(_of_file(pair.chosen), _of_file(pair.rejected)) for pair in pairs_of_file(file, prepared.dialect.name)]
            for chosen, rejected in read:
                _refuse_no_pair(chosen.conversation, rejected.conversation)
            if not read:
                raise RecipeError(f"{where}: expected pairs, got none in {source.path}", "docs/algorithms.md says what a line of pairs looks like")
            pairs += read
        elif isinstance(source, EpisodePairsSource):
            candidates.append(tuple(run_episodes(_path(source.path, prepared, where), prepared.frozen, where=where)))
    return Stored(pairs=tuple(pairs), candidates=tuple(candidates))


def _refuse_no_pair(chosen: Conversation, rejected: Conversation) -> None:
    if chosen.turns[0].observation != rejected.turns[0].observation:
        raise RecipeError(f"{chosen.where}: expected two episodes that begin with the same observation, got another in rejected")
    if chosen.turns == rejected.turns:
        raise RecipeError(f"{chosen.where}: expected two episodes that differ, got equal ones", "leave the line out")


def _path(name: str, prepared: Prepared, where: str) -> Path:
    return find_data(name, beside=prepared.frozen.beside, where=f"{where}.path")


def _of_file(conversation: Conversation) -> StoredEpisode:
    first = conversation.turns[0].observation.encode("utf-8", "replace")
    return StoredEpisode(conversation=conversation, digest=sha256(first).hexdigest()[:16])


def run_episodes(folder: Path, ours: Frozen, *, where: str) -> list[StoredEpisode]:
    """Scored episodes of a run by their last attempts, superseded ones and those of its evaluations left out.

    Args:
        ours: the run that learns from them.
        where: the key that names the folder, for messages.

    Raises:
        RecipeError: no run of agentgym, or one of another environment or action format.
        StoreError: its journal is broken.
    """
    past = Past(read_journal(folder))
    if past.run is None:
        raise RecipeError(f"{where}: expected the folder of a run of agentgym, got {folder}", "an import has no protocol: name its file instead")
    exact = _same_tokens(past.run, ours, where)
    history = past.history(_LAST)
    wanted = {
        (attempts[-1].segment, episode, attempts[-1].attempt)
        for episode, attempts in history.attempts.items()
        if history.outcomes.get(episode) in (Outcome.SUCCESS, Outcome.FAILURE) and not episode.startswith(_EVALUATIONS)
    }
    tasks: dict[str, tuple[int, str]] = {}
    found: dict[str, StoredEpisode] = {}
    for record in read_journal(folder):
        if isinstance(record, ScheduledRecord):
            tasks[record.episode] = record.task_index, record.task_digest
        elif isinstance(record, AttemptRecord) and (record.segment, record.episode, record.attempt) in wanted and record.turns:
            number, digest = tasks[record.episode]
            found[record.episode] = _stored_episode(record, number, digest, exact=exact)
    return list(found.values())


def _same_tokens(known: RunRecord, ours: Frozen, where: str) -> bool:
    """Whether tokens of that run mean here what they meant there. Raises RecipeError for another protocol."""
    theirs = parse_frozen(known.frozen, where=known.run)
    for key, a, b in (
        ("env.dialect", theirs.run.env.dialect, ours.run.env.dialect),
        ("prompt.action_format", theirs.run.prompt.action_format, ours.run.prompt.action_format),
    ):
        if a != b:
            raise RecipeError(f"{where}: expected a run with {key} {b}, as this recipe has, got {known.run} with {a}", "name a run of this protocol")
    same = theirs.run.prompt == ours.run.prompt and theirs.parts["prompt"] == ours.parts["prompt"]
    return same and theirs.parts["tokenizer"] == ours.parts["tokenizer"]


def _stored_episode(record: AttemptRecord, number: int, digest: str, *, exact: bool) -> StoredEpisode:
    # A response that was cut ended without a stop, which learning its text would invent.
    turns = tuple(Spoken(turn.observation, turn.text, not turn.cut) for turn in record.turns)
    kept = record.tokens if exact else None
    trajectory = None
    if kept is not None and kept.token_ids:
        trajectory = Trajectory(
            token_ids=kept.token_ids, action_mask=kept.action_mask, logprobs=kept.logprobs, policy_version=record.policy_version or 0
        )
    return StoredEpisode(
        conversation=Conversation(where=f"{record.run} {record.episode}", number=number, turns=turns),
        digest=digest,
        reward=record.reward,
        success=record.outcome == Outcome.SUCCESS,
        trajectory=trajectory,
    )


def _refuse_contaminated(stored: Stored, prepared: Prepared, progress: Progress) -> None:
    """Data of tasks that the run is judged on would make its figures worthless."""
    numbers = {(each.conversation.number, each.digest) for each in stored.episodes}
    learned = [TaskRow(index=number, split="", category="", goal="", digest=digest) for number, digest in sorted(numbers)]
    for split, tasks in prepared.evaluation_tasks.items():
        shared = overlap(learned, _rows(tasks), split=split)
        if shared is None:
            continue
        said = f"the stored data share {shared.count} of {shared.tasks} tasks with evaluation split {split}: {shared.described()}"
        if split not in prepared.run.tasks.allow_overlap:
            raise RecipeError(
                f"train.algorithm: expected no demonstration of a task that is evaluated, got {said}",
                f"leave them out of one of the two, or allow it by name: tasks.allow_overlap: [{split}]",
            )
        progress.warn(f"tasks.allow_overlap: {said}")


def _rows(tasks: Sequence[Task]) -> list[TaskRow]:
    return [TaskRow(index=task.index, split=task.split, category=task.category, goal=task.goal, digest=task.digest) for task in tasks]
