"""Which profile is taken on which machine, and the sentence that says why."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agentgym_cli.errors import LockError, RecipeError
from agentgym_cli.recipe.profiles import Choice, GpuNeed, GpuSurvey, choose_profile, read_survey, survey_gpus
from agentgym_cli.recipe.resolve import fullest_gpu_bytes, resolve
from tests.recipe.builders import RECIPE, has, write_recipe

NAMES = ["laptop", "gpu", "rehearsal"]
NEED = GpuNeed(kind="verl", gpus=8, gpu_memory_gib=80)
H100 = 81_559
"""MiB that nvidia-smi reports for a card sold as 80 GiB."""


def everything(name: str) -> str | None:
    return "1.0"


def nothing(name: str) -> str | None:
    return None


def choose(*memory_mib: int, wanted: str | None = None, need: GpuNeed | None = NEED) -> Choice:
    return choose_profile(NAMES, wanted=wanted, need=need, survey=has(*memory_mib), installed=everything)


def test_the_profile_asked_for_is_taken_whatever_the_machine_has() -> None:
    def unasked() -> GpuSurvey:
        raise AssertionError("no survey is needed")

    choice = choose_profile(NAMES, wanted="rehearsal", need=NEED, survey=unasked, installed=nothing)
    assert choice == Choice(name="rehearsal", reason="profile=rehearsal was asked for")


def test_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(RecipeError) as caught:
        choose(wanted="laptob")
    assert str(caught.value) == "profile: expected one of laptop, gpu, rehearsal, got 'laptob'"
    assert caught.value.hint == "profile=laptop"


def test_gpu_is_taken_where_its_gpus_are() -> None:
    assert choose(*[H100] * 8) == Choice(name="gpu", reason="this machine has 8 GPUs of 80 GiB")
    assert choose(24_576, need=GpuNeed(kind="verl", gpus=0, gpu_memory_gib=0)).reason == "this machine has 1 GPU of 24 GiB"


@pytest.mark.parametrize(
    ("memory_mib", "reason"),
    [
        ([], "no usable GPU: nvidia-smi not found"),
        ([H100] * 7, "no usable GPU: profile gpu asks for 8 GPUs of 80 GiB, this machine has 7 GPUs of 80 GiB"),
        ([H100] * 7 + [24_576], "no usable GPU: profile gpu asks for 8 GPUs of 80 GiB, this machine has 8 GPUs of "),
        ([40_960] * 8, "no usable GPU: profile gpu asks for 8 GPUs of 80 GiB, this machine has 8 GPUs of 40 GiB"),
        ([77_823] * 8, "no usable GPU: profile gpu asks for 8 GPUs of 80 GiB, this machine has 8 GPUs of 76 GiB"),
    ],
)
def test_laptop_is_taken_where_the_gpus_do_not_suffice(memory_mib: list[int], reason: str) -> None:
    choice = choose(*memory_mib)
    assert choice.name == "laptop"
    assert choice.reason.startswith(reason)


def test_usable_gpus_without_the_engine_are_an_error_that_says_what_to_do() -> None:
    with pytest.raises(LockError) as caught:
        choose_profile(NAMES, wanted=None, need=NEED, survey=has(*[H100] * 8), installed=nothing)
    assert str(caught.value) == "profile gpu: expected engine verl to be installed where 8 GPUs of 80 GiB can be used, got no torch, verl"
    assert caught.value.hint == "pip install 'agentgym-cli[verl]', or say profile=laptop or profile=rehearsal"


def test_a_recipe_without_profiles_has_the_profile_default() -> None:
    assert choose_profile([], wanted=None, need=None, survey=has()) == Choice(name="default", reason="the recipe has no profiles")
    assert choose_profile([], wanted="default", need=None, survey=has()).name == "default"
    with pytest.raises(RecipeError, match="profile: expected one of default, got 'gpu'"):
        choose_profile([], wanted="gpu", need=None, survey=has())


def test_the_only_profile_is_taken_unless_it_is_gpu() -> None:
    assert choose_profile(["cluster"], wanted=None, need=None, survey=has()) == Choice(name="cluster", reason="the recipe has no other profile")
    with pytest.raises(RecipeError, match="expected a choice among gpu, got none and no usable GPU: nvidia-smi not found"):
        choose_profile(["gpu"], wanted=None, need=NEED, survey=has())
    with pytest.raises(RecipeError, match="expected a choice among a, b, got none"):
        choose_profile(["a", "b"], wanted=None, need=None, survey=has())


def test_the_needs_of_profile_gpu_are_read_with_overrides_on_top(tmp_path: Path) -> None:
    gpu = "{train: {tasks_per_step: 4}, engine: {kind: verl}, cluster: {gpus_per_node: 8, gpu_memory_gib: 80}}"
    text = f"{RECIPE}profiles:\n  laptop: {{}}\n  gpu: {gpu}\n"
    recipe = write_recipe(tmp_path, text)
    assert resolve(recipe, survey=has(H100), installed=everything).run.profile == "laptop"
    run = resolve(recipe, ["cluster.gpus_per_node=1"], survey=has(H100), installed=everything).run
    assert (run.profile, run.profile_reason, run.cluster.gpus_per_node) == ("gpu", "this machine has 1 GPU of 80 GiB", 1)


ANSWER = "GPU-aaaa, 81559\nGPU-bbbb, 24576\nGPU-cccc, [N/A]\n"


@pytest.mark.parametrize(
    ("visible", "memory_mib"),
    [
        (None, (81_559, 24_576)),
        ("0,1", (81_559, 24_576)),
        ("1", (24_576,)),
        ("GPU-bb", (24_576,)),
        ("1,7,0", (24_576,)),
        ("", ()),
        ("-1", ()),
    ],
)
def test_gpus_that_cuda_hides_are_not_counted(visible: str | None, memory_mib: tuple[int, ...]) -> None:
    assert read_survey(ANSWER, visible=visible).memory_mib == memory_mib


def test_a_survey_without_gpus_says_why() -> None:
    assert read_survey("", visible=None).why_none == "nvidia-smi lists none"
    assert read_survey(ANSWER, visible="-1").why_none == "CUDA_VISIBLE_DEVICES=-1 shows none"


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (None, GpuSurvey(memory_mib=(), why_none="nvidia-smi not found")),
        ("echo 'GPU-aaaa, 81559'", GpuSurvey(memory_mib=(81_559,))),
        ("echo 'no driver' >&2; exit 9", GpuSurvey(memory_mib=(), why_none="nvidia-smi failed with status 9 ('no driver')")),
    ],
)
def test_nvidia_smi_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, found: GpuSurvey) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if script is not None:
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert survey_gpus() == found


def test_the_fullest_gpu_is_the_one_of_which_most_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\ncase "$*" in *memory.used*) echo "GPU-a, 70000"; echo "GPU-b, 71000"; echo "GPU-c, 81000";; esac\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert fullest_gpu_bytes() == 71_000 * 1024**2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert fullest_gpu_bytes() == 0


def test_gpus_are_known_by_name() -> None:
    answer = "GPU-aaaa, 81559, NVIDIA H100 80GB HBM3\nGPU-bbbb, 24564, NVIDIA GeForce RTX 4090\n"
    assert read_survey(answer, visible=None).names == ("NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 4090")
    assert read_survey(answer, visible="1") == GpuSurvey(memory_mib=(24_564,), names=("NVIDIA GeForce RTX 4090",))
