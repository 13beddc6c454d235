"""Stored data that a run learns from: what is taken of an earlier run, and what is refused before anything starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, Trajectory
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.freeze import Frozen
from agentgym_cli.recipe.parts import PARTS, Sources
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.store.importing.conversations import Spoken
from agentgym_cli.store.records import RunRecord
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.schedules import tasks_of
from agentgym_cli.verbs.stored import Stored, read_stored
from tests.recipe.builders import MANIFEST, has, write_recipe
from tests.verbs.builders import make_attempt, make_episode, make_result, make_turn

GOAL = "craft a door"
TEXTCRAFT = load_dialect("textcraft")
RUN = RunRecord(
    run="",
    name="toy",
    verb="train",
    profile="default",
    profile_reason="",
    engine="local",
    digest="d",
    env="textcraft",
    policy="local",
    seed=1,
    created="2026-01-01T00:00:00+00:00",
    frozen="",
    fingerprint="{}",
)
PINNED = MANIFEST.replace("2222222222222222", sha256(GOAL.encode()).hexdigest()[:16])


class Heard(Silent):
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def recipe(folder: Path, *overrides: str, manifest: str = MANIFEST) -> Prepared:
    """A toy recipe as ``train`` prepares it, without the digest of the package and the comparison with the lock."""
    resolved = resolve(write_recipe(folder, manifest=manifest), overrides, survey=has())
    sources = Sources(run=resolved.run, beside=resolved.folders)
    parts = {item: PARTS[item](sources) for item in ("prompt", "tokenizer", "data")}
    frozen = Frozen(run=resolved.run, parts=parts, recipe="toy.yaml", folders=tuple(map(str, resolved.folders)), warnings=())
    splits = sources.lists().evaluation
    return Prepared(
        run=resolved.run,
        frozen=frozen,
        name="toy-1",
        folder=folder / "runs" / "toy-1",
        database=folder / "x.duckdb",
        resumed=False,
        drift=None,
        allowed=(),
        dialect=TEXTCRAFT,
        train_tasks=(),
        evaluation_tasks={name: tasks_of(rows, env="textcraft", split=name) for name, rows in splits.items()},
    )


def sft(*sources: str) -> str:
    return f"train.algorithm={{kind: sft, demonstrations: [{', '.join(sources)}]}}"


def dpo(*sources: str, more: str = "") -> str:
    return f"train.algorithm={{kind: dpo, pairs: [{', '.join(sources)}]{more}}}"


def agenttraj(folder: Path, *tasks: str, first: str = "Goal") -> str:
    """A source of kind agenttraj with one conversation for each task."""
    rows = [{"item_id": task, "conversations": [{"from": "human", "value": first}, {"from": "gpt", "value": "look", "loss": True}]} for task in tasks]
    (folder / "t.json").write_text(json.dumps(rows))
    return "{kind: agenttraj, path: t.json}"


def played(episode: ScheduledEpisode, outcome: Outcome, *, tokens: bool = True, cut: bool = False, reward: float | None = None) -> AttemptResult:
    spoken = Trajectory(token_ids=(1, 2, 3), action_mask=(False, True, True), logprobs=(0.0, -0.5, -0.25), policy_version=4)
    turn = replace(make_turn(), cut=cut, text=f"said in {episode.sample}")
    made = make_attempt(episode, outcome=outcome, turns=(turn,), trajectory=spoken if tokens else None)
    return made if reward is None else replace(made, reward=reward)


def earlier_run(folder: Path, results: Sequence[AttemptResult], *overrides: str) -> str:
    """A finished run of the recipe's protocol with these episodes; gives its folder's path."""
    folder.mkdir(exist_ok=True)
    made = recipe(folder, *overrides)
    recorder = Recorder(folder=made.folder, run=made.name, segment=1, database=made.database, keep_tokens="all", progress=Silent())
    recorder.write(replace(RUN, run=made.name, frozen=made.frozen.to_json()))
    recorder.schedule([result.episode for result in results])
    for result in results:
        recorder.attempt(result)
        recorder.outcome(make_result(result.episode, result))
    recorder.close()
    made.frozen.write(made.folder / "frozen.json")
    return str(made.folder)


def read(prepared: Prepared, progress: Silent | None = None) -> Stored:
    return read_stored(prepared, progress or Silent())


def test_an_online_algorithm_reads_nothing(tmp_path: Path) -> None:
    assert read(recipe(tmp_path)) == Stored()


def test_demonstrations_of_a_file_are_the_tasks_that_it_names(tmp_path: Path) -> None:
    source = agenttraj(tmp_path, "textcraft_0", "textcraft_1")
    found = read(recipe(tmp_path, sft(source)))
    assert [each.conversation.number for each in found.demonstrations] == [0, 1]


@pytest.mark.parametrize("kind", ["sft", "agentevol"])
def test_a_demonstration_of_an_evaluated_task_is_refused_by_number(tmp_path: Path, kind: str) -> None:
    source = agenttraj(tmp_path, "textcraft_0", "textcraft_2")
    chosen = sft(source) if kind == "sft" else sft(source).replace("sft", "agentevol").replace("}]}", "}], iteration_steps: 1, explored_tasks: 1}")
    with pytest.raises(RecipeError, match=r"share 1 of 1 tasks with evaluation split test: task 2") as caught:
        read(recipe(tmp_path, chosen))
    assert caught.value.hint is not None and "tasks.allow_overlap: [test]" in caught.value.hint


def test_a_demonstration_of_an_evaluated_task_is_refused_by_content(tmp_path: Path) -> None:
    source = agenttraj(tmp_path, "textcraft_1", first=GOAL)
    with pytest.raises(RecipeError, match=r"evaluation split test: task 2 \(content of task 1\)"):
        read(recipe(tmp_path, sft(source), manifest=PINNED))


def test_an_overlap_that_is_allowed_by_name_is_said(tmp_path: Path) -> None:
    heard = Heard()
    read(recipe(tmp_path, sft(agenttraj(tmp_path, "textcraft_2")), "tasks.allow_overlap=[test]"), heard)
    assert heard.warnings == ["tasks.allow_overlap: the stored data share 1 of 1 tasks with evaluation split test: task 2"]


def test_a_file_of_another_world_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"t.json:1: expected tasks of textcraft"):
        read(recipe(tmp_path, sft(agenttraj(tmp_path, "babyai_0"))))


def test_a_file_without_demonstrations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"train.algorithm.demonstrations\[0\]: expected demonstrations, got none in t.json"):
        read(recipe(tmp_path, sft(agenttraj(tmp_path))))


def test_successes_of_a_run_are_learned_with_the_tokens_that_were_sampled(tmp_path: Path) -> None:
    outcomes = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.INFRA_ERROR)
    run = earlier_run(tmp_path / "a", [played(make_episode(0, sample=sample), outcome) for sample, outcome in enumerate(outcomes)])
    found = read(recipe(tmp_path, sft(f"{{kind: run, path: {run}}}")))
    (shown,) = found.demonstrations
    assert shown.conversation.turns == (Spoken("a shelf", "said in 0", True),)
    assert shown.trajectory is not None and shown.trajectory.token_ids == (1, 2, 3) and shown.trajectory.action_mask == (False, True, True)
    assert found.left_out == {"below_threshold": 1}


def test_tokens_of_another_prompt_are_left_and_the_words_are_taken(tmp_path: Path) -> None:
    run = earlier_run(tmp_path / "a", [played(make_episode(0), Outcome.SUCCESS)], "prompt.system=none")
    (shown,) = read(recipe(tmp_path, sft(f"{{kind: run, path: {run}}}"))).demonstrations
    assert shown.trajectory is None and shown.conversation.turns[0].text == "said in 0"


def test_a_reply_that_was_cut_is_not_learned(tmp_path: Path) -> None:
    run = earlier_run(tmp_path / "a", [played(make_episode(0), Outcome.SUCCESS, cut=True)])
    (shown,) = read(recipe(tmp_path, sft(f"{{kind: run, path: {run}}}"))).demonstrations
    assert shown.conversation.turns == (Spoken("a shelf", "said in 0", False),)


def test_a_threshold_takes_episodes_by_return(tmp_path: Path) -> None:
    rewards = (0.2, 0.6, 0.9)
    run = earlier_run(tmp_path / "a", [played(make_episode(0, sample=n), Outcome.FAILURE, reward=reward) for n, reward in enumerate(rewards)])
    found = read(recipe(tmp_path, sft(f"{{kind: run, path: {run}, at_least: 0.5}}")))
    assert [each.reward for each in found.demonstrations] == [0.6, 0.9]


def test_episodes_that_a_run_judged_itself_by_are_never_learned(tmp_path: Path) -> None:
    judged = replace(make_episode(2, phase="eval_before", step=0), task=replace(make_episode(2).task, split="test"))
    run = earlier_run(tmp_path / "a", [played(make_episode(0), Outcome.SUCCESS), played(judged, Outcome.SUCCESS)])
    found = read(recipe(tmp_path, sft(f"{{kind: run, path: {run}}}")))
    assert [each.conversation.number for each in found.demonstrations] == [0]


def test_a_run_of_another_action_format_is_refused(tmp_path: Path) -> None:
    run = earlier_run(tmp_path / "a", [played(make_episode(0), Outcome.SUCCESS)], "prompt.action_format=plain", "prompt.system=none")
    with pytest.raises(RecipeError, match=r"expected a run with prompt.action_format react, as this recipe has, got toy-.* with plain"):
        read(recipe(tmp_path, sft(f"{{kind: run, path: {run}}}")))


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "frozen.json").write_text("{}")
    with pytest.raises(RecipeError, match=r"train.algorithm.demonstrations\[0\]: expected the folder of a run of agentgym"):
        read(recipe(tmp_path, sft("{kind: run, path: none}")))


def write_pairs(folder: Path, chosen: str, rejected: str, *, other: str = "Goal") -> str:
    def side(observation: str, action: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": observation}, {"role": "assistant", "content": action}]

    line = {"task": "textcraft_0", "chosen": side("Goal", chosen), "rejected": side(other, rejected)}
    (folder / "p.jsonl").write_text(json.dumps(line) + "\n")
    return "{kind: file, path: p.jsonl}"


def test_pairs_of_a_file_are_taken_as_they_are(tmp_path: Path) -> None:
    ((chosen, rejected),) = read(recipe(tmp_path, dpo(write_pairs(tmp_path, "get lamp", "sleep")))).pairs
    assert (chosen.conversation.turns[0].text, rejected.conversation.turns[0].text) == ("get lamp", "sleep")


def test_a_pair_whose_sides_are_equal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"p.jsonl:1 chosen: expected two episodes that differ, got equal ones"):
        read(recipe(tmp_path, dpo(write_pairs(tmp_path, "sleep", "sleep"))))


def test_a_pair_of_two_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"expected two episodes that begin with the same observation"):
        read(recipe(tmp_path, dpo(write_pairs(tmp_path, "get lamp", "sleep", other="Another goal"))))


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("\n")
    with pytest.raises(RecipeError, match=r"train.algorithm.pairs\[0\]: expected pairs, got none in p.jsonl"):
        read(recipe(tmp_path, dpo("{kind: file, path: p.jsonl}")))


def test_candidates_of_a_run_are_its_scored_episodes(tmp_path: Path) -> None:
    outcomes = (Outcome.SUCCESS, Outcome.FAILURE, Outcome.INFRA_ERROR)
    run = earlier_run(tmp_path / "a", [played(make_episode(0, sample=sample), outcome) for sample, outcome in enumerate(outcomes)])
    (candidates,) = read(recipe(tmp_path, dpo(f"{{kind: run, path: {run}}}"))).candidates
    assert [(each.success, each.reward) for each in candidates] == [(True, 1.0), (False, 0.0)]


def test_promise_07_the_digest_covers_what_is_learned(tmp_path: Path) -> None:
    source = agenttraj(tmp_path, "textcraft_0")
    before = recipe(tmp_path, sft(source)).frozen
    assert before.parts["data"] == {"t.json": sha256((tmp_path / "t.json").read_bytes()).hexdigest()}
    agenttraj(tmp_path, "textcraft_1")
    assert recipe(tmp_path, sft(source)).frozen.digest != before.digest
