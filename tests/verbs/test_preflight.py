"""What train keeps of its estimate."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.profiles import GpuSurvey, Survey
from agentgym_cli.store.digest import results_digest
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.queries import metric_totals
from agentgym_cli.verbs.preflight import keep_estimate, keep_peak, preflight
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.segment import open_segment
from tests.verbs.frozen_runs import prepared, started, toy


def metrics_of(folder: Path, *, kept: bool) -> tuple[str, dict[str, float | None]]:
    """Digest of a run's results and the numbers of phase ``estimate``, of a run that kept them or did not."""
    folder.mkdir()
    run = started(toy(folder))
    found = preflight(prepared("recipes/textcraft_grpo.yaml", "profile=laptop"), Silent())
    assert found is not None
    with open_segment(run, verb="train", policy="local", resumed_from_step=None, progress=Silent()) as (recorder, _):
        keep_estimate(recorder, found if kept else None)
        if kept:
            keep_peak(recorder)
    with open_for_reading(run.database) as connection:
        totals = metric_totals(connection, run.name)
        digest = results_digest(connection, run.name).metrics
    return digest, {total.name: total.last for total in totals if total.phase == "estimate"}


@pytest.mark.slow
def test_the_estimate_is_kept_with_the_peak_that_came_of_it_and_is_part_of_no_digest(tmp_path: Path) -> None:
    digest, kept = metrics_of(tmp_path / "with", kept=True)
    without, nothing = metrics_of(tmp_path / "without", kept=False)
    assert (digest, nothing) == (without, {})
    assert {name.removeprefix("time/") for name in kept} == {
        "step_seconds",
        "play_seconds",
        "update_seconds",
        "run_seconds",
        "turns_mean",
        "tokens_sampled",
        "peak_bytes",
        "measured_peak_bytes",
        "memory_bytes",
    }
    assert (kept["time/measured_peak_bytes"] or 0) > 50 * 1024**2


def test_a_steps_estimate_is_a_mean_over_all_steps_as_its_metrics_are() -> None:
    found = preflight(prepared("recipes/textcraft_grpo.yaml", "profile=laptop"), Silent())
    assert found is not None
    # 35 steps of 8, 35 of 10 and 40 of 12 turns at most, 0.6 of which are taken
    assert found.mean.turns == pytest.approx(0.6 * (35 * 8 + 35 * 10 + 40 * 12) / 110)
    stages = [stage for stage in found.stages if stage.name.startswith("horizon")]
    assert found.mean.seconds == pytest.approx(sum(stage.seconds for stage in stages) / 110)
    assert 0 < found.mean.play < found.step.play and found.mean.seconds < found.step.total


TEXTCRAFT = "recipes/textcraft_grpo.yaml"
TOO_LARGE = ("profile=laptop", "engine.slots=10000000")
CUDA = ("profile=laptop", "engine.device=cuda", "engine.slots=400000")


def seen(*gib: int) -> Survey:
    return lambda: GpuSurvey(memory_mib=tuple(size * 1024 for size in gib), why_none="" if gib else "nvidia-smi not found")


def test_a_run_that_does_not_fit_goes_on_where_its_recipe_says_so() -> None:
    heard = Silent()
    found = preflight(prepared(TEXTCRAFT, *TOO_LARGE, "engine.memory_check=warn"), heard)
    assert found is not None and not found.verdict.fits
    assert [text for text in heard.warnings if text.endswith("cache of episodes does not fit; engine.memory_check is warn")]


@pytest.mark.slow
def test_leaving_it_at_a_warning_changes_no_digest() -> None:
    digests = {prepared(TEXTCRAFT, "profile=laptop", f"engine.memory_check={kind}").frozen.digest for kind in ("error", "warn")}
    assert len(digests) == 1


def test_a_refusal_names_a_setting_that_helps_and_the_way_past_it() -> None:
    with pytest.raises(RecipeError) as caught:
        preflight(prepared(TEXTCRAFT, *TOO_LARGE), Silent())
    assert caught.value.hint == "engine.slots=16; engine.memory_check=warn goes on all the same (docs/capacity.md)"


@pytest.mark.slow
def test_the_first_gpu_that_is_seen_is_judged() -> None:
    # 400,000 slots x 256 tokens x 512 bytes are 48.8 GiB
    assert preflight(prepared(TEXTCRAFT, *CUDA), Silent(), seen(80, 8)) is not None
    with pytest.raises(RecipeError, match=r"memory: expected at most 24,576 MiB on this GPU, got a peak of .*: cache of episodes does not fit"):
        preflight(prepared(TEXTCRAFT, *CUDA), Silent(), seen(24, 80))
    assert preflight(prepared(TEXTCRAFT, *CUDA), Silent(), seen()) is None
