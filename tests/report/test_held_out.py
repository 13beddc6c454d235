"""Which training a judged split is held against: the run's own, that of the run which wrote the weights, or the one that the gate names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.report.held_out import Shared, find_shared, judge_held_out
from agentgym_cli.store.db import Connection
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import CheckpointRecord, Record
from tests.store.builders import NOW, make_run, make_scheduled, make_segment, settled, write_journal

WEIGHTS, EARLIER = "a" * 64, "b" * 64


def frozen(*, tasks: int | None, model: str = "", warnings: Sequence[str] = ()) -> str:
    parts: dict[str, object] = {"tasks.train": {"count": str(tasks)}} if tasks is not None else {}
    parts |= {"model": {"model.safetensors": model}} if model else {}
    return json.dumps({"parts": parts, "warnings": list(warnings)})


def add(store: Connection, folder: Path, run: str, *records: Record, **changes: object) -> None:
    begun, ended = make_segment(run=run), make_segment(run=run, ended=NOW, status="finished")
    load_into(store, write_journal(folder / run, [make_run(run, **changes), begun, *records, ended]))


def trainer(
    store: Connection,
    folder: Path,
    run: str,
    tasks: Sequence[int],
    *,
    writes: str = WEIGHTS,
    contents: Mapping[int, str] = MappingProxyType({}),
    **said: object,
) -> None:
    """A run that played ``tasks`` in training and wrote a checkpoint."""
    scheduled = [
        make_scheduled(number, run, phase="train", split="train", step=1, task_digest=contents.get(number, f"c{number}")) for number in tasks
    ]
    played = [record for each in scheduled for record in settled(each, "success")]
    checkpoint = CheckpointRecord(run=run, segment=1, step=6, path="checkpoints/6", digest=writes)
    add(store, folder, run, *played, checkpoint, frozen=frozen(tasks=1200, **said))  # type: ignore[arg-type]


def judged(store: Connection, folder: Path, policy: str, tasks: Sequence[int] = (1, 2, 3), run: str = "e") -> None:
    """An evaluation of ``tasks``, whose own recipe names a list of training."""
    scheduled = [make_scheduled(number, run, task_digest=f"c{number}") for number in tasks]
    records = [record for each in scheduled for record in settled(each, "success")]
    add(store, folder, run, *records, verb="eval", policy=policy, frozen=frozen(tasks=1200))


def looked(store: Connection, trained_by: str | None = None, run: str = "e") -> Shared:
    return find_shared(store, run, phase="eval", split="test", step=0, trained_by=trained_by)


CHECKPOINT = f"checkpoint of step 6, weights {WEIGHTS}"


def test_an_evaluation_of_a_checkpoint_is_held_against_the_run_that_wrote_it(store: Connection, tmp_path: Path) -> None:
    trainer(store, tmp_path, "t", (10, 11))
    judged(store, tmp_path, CHECKPOINT)
    assert judge_held_out(looked(store)) == (
        "t (wrote the weights of step 6 that acted): 1,200 tasks of training, played 2, 0 of them in the split",
        True,
    )


@pytest.mark.parametrize(("number", "content"), [(3, "x"), (99, "c3")])
def test_a_task_that_the_writing_run_trained_on_is_found_by_number_and_by_content(
    store: Connection, tmp_path: Path, number: int, content: str
) -> None:
    trainer(store, tmp_path, "t", (11, number), contents={number: content})
    judged(store, tmp_path, CHECKPOINT)
    found = looked(store)
    assert (found.trainings[0].played, found.trainings[0].shared) == (2, 1)
    assert not judge_held_out(found)[1]


@pytest.mark.slow
def test_a_checkpoint_that_began_as_another_runs_weights_has_two_trainings(store: Connection, tmp_path: Path) -> None:
    trainer(store, tmp_path, "first", (1,), writes=EARLIER)
    trainer(store, tmp_path, "second", (11,), model=EARLIER)
    judged(store, tmp_path, CHECKPOINT)
    found = looked(store)
    assert [(each.run, each.shared) for each in found.trainings] == [("second", 0), ("first", 1)]
    assert found.trainings[1].why == "wrote the weights of step 6 that second began with"
    assert not judge_held_out(found)[1]


@pytest.mark.slow
def test_weights_that_no_run_of_the_store_wrote_need_a_name(store: Connection, tmp_path: Path) -> None:
    trainer(store, tmp_path, "t", (10,), writes=EARLIER)
    judged(store, tmp_path, CHECKPOINT)
    said, met = judge_held_out(looked(store))
    assert (said, met) == ("n/a: no run of this store wrote the weights that acted; trained_by of the gate can name the run", False)
    assert judge_held_out(looked(store, "t")) == ("t (named by the gate): 1,200 tasks of training, played 1, 0 of them in the split", True)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("endpoint, chat: qualified", "n/a: an endpoint's model was trained elsewhere; trained_by of the gate can name the run"),
        ("oracle", "n/a: policy oracle was never trained, so there is no training to hold out from"),
        (f"scripted, script {WEIGHTS}", "n/a: policy scripted was never trained, so there is no training to hold out from"),
        ("local", "n/a: no record says where policy local was trained; trained_by of the gate can name the run"),
    ],
)
def test_a_policy_that_was_not_trained_here_is_not_held_against_its_own_recipe_and_that_is_explained(
    store: Connection, tmp_path: Path, policy: str, said: str
) -> None:
    judged(store, tmp_path, policy)
    assert judge_held_out(looked(store)) == (said, False)


@pytest.mark.slow
def test_a_named_run_is_added_to_those_that_are_known_and_must_exist(store: Connection, tmp_path: Path) -> None:
    trainer(store, tmp_path, "t", (10,))
    trainer(store, tmp_path, "other", (2,), writes=EARLIER)
    judged(store, tmp_path, CHECKPOINT)
    assert {each.run: each.shared for each in looked(store, "other").trainings} == {"t": 0, "other": 1}
    with pytest.raises(StoreError):
        looked(store, "nowhere")


def test_a_run_that_wrote_the_weights_and_kept_no_episode_of_training_proves_nothing(store: Connection, tmp_path: Path) -> None:
    trainer(store, tmp_path, "t", ())
    judged(store, tmp_path, CHECKPOINT)
    said, met = judge_held_out(looked(store))
    assert not met
    assert said.endswith("1,200 tasks of training, none of which its episodes name, so nobody can say")


def test_overlaps_that_the_writing_run_allowed_count_against_the_split(store: Connection, tmp_path: Path) -> None:
    sentence = "tasks.allow_overlap: split test shares 2 of 10 tasks with training: x"
    trainer(store, tmp_path, "t", (10,), warnings=(sentence, sentence.replace("test", "other")))
    judged(store, tmp_path, CHECKPOINT)
    assert looked(store).allowed == (f"t: {sentence}",)
    assert not judge_held_out(looked(store))[1]


def test_a_training_run_is_held_against_its_own_tasks(store: Connection, tmp_path: Path) -> None:
    scheduled = [make_scheduled(number, "t", phase="eval_after", step=6) for number in (1, 2)]
    trained = [make_scheduled(number, "t", phase="warm_start", split="train") for number in (2, 5)]
    records = [record for each in (*scheduled, *trained) for record in settled(each, "success")]
    add(store, tmp_path, "t", *records, frozen=frozen(tasks=1200))
    found = find_shared(store, "t", phase="eval_after", split="test", step=6)
    assert judge_held_out(found) == ("t (the run itself): 1,200 tasks of training, played 2, 1 of them in the split", False)
