"""Demonstrations learned on verl by two ranks, whole: killed, resumed, exported, with the local engine's numbers beside verl's."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.local import learning_rate_at
from agentgym_cli.learn.losses import supervised_loss
from agentgym_cli.learn.model import build_model
from agentgym_cli.learn.supervised import SupervisedTrainer
from agentgym_cli.learn.update import make_optimizer
from agentgym_cli.learn.verl.launch import MARK_FILE, processes_of
from agentgym_cli.learn.verl.sft.keys import IMITATING, REFERENCE
from agentgym_cli.learn.verl.sft.rows import read_demonstrations, read_updates
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord, CheckpointRecord, MetricRecord, OutcomeRecord, SegmentRecord
from tests.verl.launches import LONGEST, RECIPE, SMALL, command, environment, metrics_of, tail

pytestmark = [pytest.mark.verl, pytest.mark.timeout(1500), pytest.mark.filterwarnings("ignore")]
STEPS, SHOWN, COUNT = 5, 7, 4
OVERRIDES = (
    "profile=rehearsal",
    f"train.algorithm={{kind: sft, demonstrations: [{{kind: oracle, count: {SHOWN}}}]}}",
    "cluster.nodes=2",
    "horizon={kind: fixed, turns: 6}",
    "reward.token_cost=0",
    "evaluation.limit=1",
    "evaluation.horizon=2",
    f"train.steps={STEPS}",
    "train.updates_per_step=1",
    "train.checkpoint_every=2",
    "train.warmup_steps=2",
    "train.weight_decay=0.1",
    # Below what the gradients are, so that they are clipped.
    "train.max_gradient_norm=1.5",
)


@dataclass(frozen=True, slots=True)
class Taught:
    """A run that was killed once and came to its end."""

    folder: Path
    left_running: list[int]
    """Processes that were there a while after the launcher was killed."""

    def records(self) -> list[Any]:
        """Those that count."""
        every = list(read_journal(self.folder))
        resumed = self.resumed()
        return [each for each in every if getattr(each, "segment", 2) == 2 or getattr(each, "step", 0) <= resumed]

    def resumed(self) -> int:
        """The step that the second segment went on from."""
        (step,) = [each.resumed_from_step for each in read_journal(self.folder) if isinstance(each, SegmentRecord) and each.segment == 2][:1]
        assert step is not None
        return step


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Taught]:
    """Kill the launcher with SIGKILL once the checkpoint of step 2 is complete, and let a second launch finish."""
    if SMALL:
        pytest.skip("a rehearsal needs 256 MiB of shared memory")
    place = tmp_path_factory.mktemp("sft")
    with (place / "first.txt").open("w") as said:
        first = subprocess.Popen(command("train", RECIPE, *OVERRIDES), cwd=place, env=environment(), stdout=said, stderr=said)
        try:
            until(lambda: list(place.glob("runs/*/verl/checkpoints/global_step_2/agentgym.json")), first, place)
        finally:
            first.send_signal(signal.SIGKILL)
            first.wait()
    (folder,) = (place / "runs").iterdir()
    mark, patience = (folder / "verl" / MARK_FILE).read_text(), time.monotonic() + 60
    while (left := processes_of(mark)) and time.monotonic() < patience:
        time.sleep(0.5)
    words = command("train", str(folder), "--resume")
    second = subprocess.run(words, cwd=place, env=environment(), capture_output=True, text=True, timeout=LONGEST, check=False)
    assert second.returncode == 0, second.stderr + tail(folder)
    yield Taught(folder, left)


def until(there: Any, first: subprocess.Popen[bytes], place: Path) -> None:
    longest = time.monotonic() + LONGEST
    while not there():
        assert first.poll() is None and time.monotonic() < longest, (place / "first.txt").read_text()
        time.sleep(0.1)


def test_the_keys_that_are_shipped_are_those_of_the_trainer_that_is_installed() -> None:
    hydra: Any = pytest.importorskip("hydra")
    omegaconf: Any = pytest.importorskip("omegaconf")
    verl: Any = pytest.importorskip("verl")

    def leaves(node: object, path: str = "") -> Iterator[str]:
        if isinstance(node, dict) and node:
            for name, value in node.items():
                yield from leaves(value, f"{path}.{name}" if path else name)
        else:
            yield path

    with hydra.initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        found = omegaconf.OmegaConf.to_container(hydra.compose(REFERENCE), resolve=False)
    assert {key for key in leaves(found) if not key.endswith("_target_")} == IMITATING.listed()


def test_loss_and_gradient_are_the_local_engines() -> None:
    losses: Any = pytest.importorskip("verl.workers.utils.losses")
    tensordict: Any = pytest.importorskip("tensordict")
    masks = [torch.tensor(each) for each in ([0, 1, 1, 0, 1], [0, 0, 1], [0, 1, 0, 1])]
    made = [torch.rand(len(each), generator=torch.Generator().manual_seed(len(each))) * -3 for each in masks]
    # verl's log-probability in a place is that of the next token.
    theirs = [torch.roll(each, -1).requires_grad_() for each in made]
    data = tensordict.TensorDict({"loss_mask": torch.nested.as_nested_tensor(masks, layout=torch.jagged)}, batch_size=[3])
    # Half of an update of 14 action tokens, whose other half a second rank has.
    for name, value in {"dp_size": 2, "batch_num_tokens": 14, "pad_mode": "no_padding"}.items():
        data[name] = tensordict.NonTensorData(value)
    loss, _ = losses.sft_loss(None, {"log_probs": torch.nested.as_nested_tensor(theirs, layout=torch.jagged)}, data)
    ours = [each.clone().requires_grad_() for each in made]
    wanted = sum(supervised_loss(each, mask.bool()) for each, mask in zip(ours, masks, strict=True)) / 14  # type: ignore[misc]
    # Gradients are averaged over the ranks.
    torch.testing.assert_close(loss / 2, wanted)
    gradients = torch.autograd.grad(loss / 2, theirs), torch.autograd.grad(wanted, ours)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(torch.roll(one, 1), other)


def test_a_trainer_that_is_told_shuffles_nothing_and_refuses_what_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer: Any = pytest.importorskip("agentgym_cli.learn.verl.sft.trainer")
    said: list[tuple[str, dict[str, Any]]] = []
    desk = SimpleNamespace(say=lambda do, **fields: said.append((do, fields)), mark=lambda *_: None)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda *_, **__: None)
    engine = SimpleNamespace(get_data_parallel_group=lambda: None, optimizer=SimpleNamespace(param_groups=[{"lr": 0.25}]))
    output = trainer.tensordict_utils.get_tensordict({}, non_tensor_dict={"metrics": {"loss": float("nan"), "grad_norm": 1.0}})
    client = trainer.ToldClient(SimpleNamespace(engine=engine, train_batch=lambda data: output), desk)
    client.step = 6
    data = trainer.tensordict_utils.get_tensordict(
        {"loss_mask": torch.nested.as_nested_tensor([torch.tensor([0, 1, 1]), torch.tensor([0, 1])], layout=torch.jagged)},
        non_tensor_dict={},
    )
    trainer.tensordict_utils.assign_non_tensor(data, global_token_num=trainer.tensordict_utils.NonTensorData([3, 2]))
    with pytest.raises(ArithmeticError, match="step 7: loss nan"):
        client.train_batch(data)
    values = {"loss": None, "grad_norm": 1.0, "learning_rate": 0.25, "action_tokens": 3.0, "demonstrations": 2.0, "global_tokens": 5.0}
    assert said == [("metrics", {"step": 7, "values": values})]


def test_promise_10_a_kill_behind_a_checkpoint_loses_no_update(taught: Taught) -> None:
    assert taught.resumed() in (2, 4)
    assert {each.step for each in taught.records() if isinstance(each, CheckpointRecord)} == {2, 4, 5}
    assert set(metrics_of(taught.records())["loss"]) == set(range(1, STEPS + 1))
    marks = [(taught.folder / place / MARK_FILE).read_text() for place in ("verl", "vllm")]
    assert taught.left_running == [] and [processes_of(mark) for mark in marks] == [[], []]


def test_the_model_is_evaluated_before_and_its_checkpoint_after(taught: Taught) -> None:
    played = [each for each in read_journal(taught.folder) if isinstance(each, AttemptRecord) and each.episode.startswith("eval_")]
    assert [(each.episode.split("/")[0], each.episode.split("/")[2], each.segment) for each in played] == [
        ("eval_before", "0", 1),
        ("eval_after", str(STEPS), 2),
    ]
    assert [each.policy_version for each in played] == [0, STEPS]
    assert not (taught.folder / "verl" / "merged").exists()


def test_the_oracle_is_asked_once_and_what_it_showed_is_counted(taught: Taught) -> None:
    every = list(read_journal(taught.folder))
    outcomes = [each for each in every if isinstance(each, OutcomeRecord) and each.episode.startswith("demonstrate/")]
    assert len(outcomes) == SHOWN
    gathered = {each.name: each.value for each in every if isinstance(each, MetricRecord) and each.phase == "demonstrate"}
    kept = len(list(read_demonstrations(taught.folder / "verl" / "demonstrations.jsonl")))
    assert gathered.pop("demonstrations") == kept >= COUNT
    assert sum(value or 0 for value in gathered.values()) == SHOWN - kept
    updates = read_updates(taught.folder / "verl" / "updates.jsonl")
    assert [len(each) for each in updates] == [COUNT] * STEPS


def test_every_update_is_the_local_engines_and_so_is_the_model_that_is_exported(taught: Taught) -> None:
    place = taught.folder.parent.parent
    words = command("export", str(taught.folder), "--json")
    done = subprocess.run(words, cwd=place, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    exported = load_file(place / json.loads(done.stdout)["folder"] / "model.safetensors")
    spec = read_frozen(taught.folder / "frozen.json").run.train
    assert spec is not None
    model = build_model(taught.folder / "verl" / "model", seed=None, vocabulary=1, context=64)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer = make_optimizer(model, weight_decay=spec.weight_decay)
    local = SupervisedTrainer(model, learning_rate=0.0, max_gradient_norm=spec.max_gradient_norm, optimizer=optimizer)
    shown = [
        Trajectory(token_ids=each.token_ids, action_mask=each.action_mask, logprobs=(0.0,) * len(each.token_ids), policy_version=0)
        for each in read_demonstrations(taught.folder / "verl" / "demonstrations.jsonl")
    ]
    measured = metrics_of(taught.records())
    for step, places in enumerate(read_updates(taught.folder / "verl" / "updates.jsonl"), start=1):
        made = local.supervised_step([shown[place] for place in places], step=step, learning_rate=learning_rate_at(spec, step))
        assert measured["learning_rate"][step] == pytest.approx(learning_rate_at(spec, step))
        assert measured["action_tokens"][step] == made.action_tokens
        assert measured["loss"][step] == pytest.approx(made.loss, abs=1e-4)
        assert measured["gradient_norm"][step] == pytest.approx(made.gradient_norm, rel=1e-3)
    assert all(value > spec.max_gradient_norm for value in measured["gradient_norm"].values())
    for name, tensor in model.state_dict().items():
        # verl's merger rounds weights to bfloat16: one part in 256. They moved by about 0.004, the sum of the rates.
        torch.testing.assert_close(exported[name].float(), tensor, atol=2e-4, rtol=2**-8)
    embedded = "model.embed_tokens.weight"
    assert float((exported[embedded].float() - before[embedded]).abs().max()) > 3e-3
