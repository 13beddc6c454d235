"""What train keeps of its estimate."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.store.digest import results_digest
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.queries import metric_totals
from agentgym_cli.verbs.preflight import keep_estimate, keep_peak, preflight
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.segment import open_segment
from tests.verbs.frozen_runs import prepared, started, toy

pytestmark = pytest.mark.slow


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
    }
    assert (kept["time/measured_peak_bytes"] or 0) > 50 * 1024**2
