"""Every learning algorithm on the laptop world, and a growing horizon against fixed ones, through the real command; then their tables.

    OMP_NUM_THREADS=1 python -m benchmarks.paradigms --folder F              # makes what is not there yet, one run at a time
    OMP_NUM_THREADS=1 python -m benchmarks.paradigms --folder F --only grpo  # makes what has this word in its name
    python -m benchmarks.paradigms --folder F --tables                       # makes nothing

A finished run is not made again, and one that was stopped is resumed. Every figure is a report's own; what has not been run, or has not finished, is
named below the tables.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
SPLITS = ("unseen_tasks", "unseen_goals")
LONGEST_SECONDS = 3600
SHORT, LONG = 8, 12
"""Fixed horizons: the first and the last of the recipe's stages, in turns."""

Values = Mapping[str, Any]
"""A part of a report in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One run."""

    name: str
    says: str
    recipe: str
    seed: int
    words: tuple[str, ...] = ()

    @property
    def command(self) -> tuple[str, ...]:
        """Of ``agentgym``, for a run that is not there yet."""
        return ("train", str(RECIPES / f"{self.recipe}.yaml"), *self.words, f"seed={self.seed}", f"name={self.name}")

    def home(self, folder: Path) -> Path | None:
        """Where its run is; None when there is none."""
        return next(iter(sorted((folder / "runs").glob(f"{self.name}-*"))), None)


def online(kind: str, says: str, seed: int = 1) -> Experiment:
    """A run of a recipe's laptop profile."""
    return Experiment(name=f"{kind}_seed_{seed}", says=says, recipe=f"textcraft_{kind}", seed=seed, words=("profile=laptop",))


def fixed(turns: int, seed: int) -> Experiment:
    """GRPO with one horizon in place of the stages."""
    words = ("profile=laptop", f"horizon={{kind: fixed, turns: {turns}}}")
    return Experiment(name=f"grpo_fixed_{turns}_seed_{seed}", says=f"GRPO, always {turns} turns", recipe="textcraft_grpo", seed=seed, words=words)


def stored(kind: str, says: str) -> Experiment:
    """A run of a recipe that has one profile."""
    return Experiment(name=f"{kind}_seed_1", says=says, recipe=f"textcraft_{kind}", seed=1)


PLAN = (
    online("grpo", "GRPO"),
    online("ppo", "PPO"),
    online("rloo", "RLOO"),
    online("reinforce_pp", "REINFORCE++"),
    stored("sft", "SFT"),
    stored("dpo", "DPO"),
    stored("agentevol", "AgentEvol"),
    online("grpo", "GRPO", 2),
    online("grpo", "GRPO", 3),
    *(fixed(turns, seed) for seed in (1, 2, 3) for turns in (SHORT, LONG)),
)


def agentgym(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One command in ``folder``, its progress on standard error."""
    command = [sys.executable, "-m", "agentgym_cli", *words]
    return subprocess.run(command, cwd=folder, timeout=LONGEST_SECONDS, stdout=subprocess.PIPE, text=True, check=False)


def make(folder: Path, experiment: Experiment) -> None:
    """Make the run, or go on with it; of a finished one the command says that nothing is left to do."""
    home = experiment.home(folder)
    words = experiment.command if home is None else ("train", f"runs/{home.name}", "--resume")
    sys.stderr.write(f"{experiment.name}\n")
    code = agentgym(folder, *words).returncode
    if code:
        sys.stderr.write(f"{experiment.name}: exit code {code}\n")


def reported(folder: Path, *experiments: Experiment) -> Any:
    """The report of a run, or the comparison of several with the first."""
    homes = [home.name for experiment in experiments if (home := experiment.home(folder)) is not None]
    told = agentgym(folder, "report", *homes, "--json")
    if told.returncode:
        raise SystemExit(f"agentgym report {' '.join(homes)}: exit code {told.returncode}")
    return json.loads(told.stdout)


def rate(found: Values) -> str:
    """End-to-end success with its count and 95% interval."""
    return f"{100 * found['value']:.1f}% ({found['count']} of {found['denominator']}; {100 * found['low']:.1f} to {100 * found['high']:.1f})"


def points(middle: float, low: float | None, high: float | None) -> str:
    """A difference in percentage points with its 95% interval."""
    return f"{middle:+.1f}" if low is None or high is None else f"{middle:+.1f} ({low:+.1f} to {high:+.1f})"


def moved(low: float | None, high: float | None) -> str:
    """What an interval of a difference lets one say."""
    if low is None or high is None:
        return "n/a"
    return "better" if low > 0 else "worse" if high < 0 else "within noise"


def gain_row(experiment: Experiment, report: Values, split: str) -> str:
    """Before and after on one split."""
    (found,) = (each for each in report["comparisons"] if each["split"] == split)
    change = found["end_to_end"]
    cells = (
        experiment.says,
        str(experiment.seed),
        rate(found["before"]["end_to_end"]),
        rate(found["after"]["end_to_end"]),
        points(change["points"], change["low"], change["high"]),
        moved(change["low"], change["high"]),
    )
    return line(cells)


def cost_row(experiment: Experiment, report: Values) -> str:
    """What a run took: episodes by what they were for, tokens that it sampled, minutes on the clock."""
    parts, spending = report["parts"], report["spending"]

    def scheduled(*phases: str) -> int:
        return sum(part["accounting"]["scheduled"] for part in parts if part["phase"] in phases)

    (last,) = {part["step"] for part in parts if part["phase"] == "eval_after"}
    cells = (
        experiment.says,
        str(experiment.seed),
        str(last),
        f"{scheduled('warm_start', 'demonstrate'):,}",
        f"{scheduled('train', 'explore'):,}",
        f"{scheduled('eval_before', 'eval_after'):,}",
        f"{spending['tokens_sampled']['value']:,.0f}",
        f"{spending['clock_seconds']['value'] / 60:.1f}",
    )
    return line(cells)


def horizon_row(seed: int, comparison: Values, turns: int, split: str) -> str:
    """A fixed horizon minus the stages, task by task."""
    (found,) = (each for each in comparison["splits"] if each["split"] == split)
    change = found["end_to_end"]
    scaled = [None if change[name] is None else 100 * change[name] for name in ("low", "high")]
    cells = (
        str(seed),
        f"`{split}`",
        rate(found["base"]["end_to_end"]),
        str(turns),
        rate(found["other"]["end_to_end"]),
        points(100 * change["mean"], *scaled),
        f"{change['won']} / {change['lost']}",
        f"{change['p_adjusted']:.3g}",
        "yes" if change["significant"] else "no",
    )
    return line(cells)


def line(cells: Sequence[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |\n"


def table(names: Sequence[str], rows: Sequence[str]) -> str:
    """A table in Markdown; of nothing, nothing."""
    return f"{line(names)}{'|---' * len(names)}|\n{''.join(rows)}\n" if rows else ""


def horizon_rows(folder: Path, finished: Mapping[str, Experiment]) -> Iterator[str]:
    """All that can be compared, both fixed horizons of a seed with its stages in one comparison."""
    for seed in (1, 2, 3):
        base = finished.get(f"grpo_seed_{seed}")
        others = {turns: finished[name] for turns in (SHORT, LONG) if (name := fixed(turns, seed).name) in finished}
        if base is None or not others:
            continue
        compared = reported(folder, base, *others.values())["comparisons"]
        for split in SPLITS:
            yield from (horizon_row(seed, comparison, turns, split) for turns, comparison in zip(others, compared, strict=True))


GAINS = ("algorithm", "seed", "before", "after", "points, 95%", "after is")
COSTS = ("algorithm", "seed", "steps", "demonstrations", "learned from", "evaluated", "tokens sampled", "minutes")
HORIZONS = ("seed", "split", "stages", "turns", "always so many", "points, 95%", "won / lost", "p, Holm", "claim")


def show(folder: Path) -> None:
    """Print all tables."""
    there = {each: reported(folder, each) for each in PLAN if each.home(folder) is not None}
    finished = {each: report for each, report in there.items() if report["header"]["status"] == "finished"}
    for split in SPLITS:
        sys.stdout.write(f"`{split}`, end-to-end success with its count and 95% interval:\n\n")
        sys.stdout.write(table(GAINS, [gain_row(each, report, split) for each, report in finished.items()]))
    sys.stdout.write(table(COSTS, [cost_row(each, report) for each, report in finished.items()]))
    sys.stdout.write(table(HORIZONS, list(horizon_rows(folder, {each.name: each for each in finished}))))
    for each in PLAN:
        if each not in finished:
            sys.stdout.write(f"{each.name}: {there[each]['header']['status'] if each in there else 'not run'}\n")


def main() -> None:
    """Make the runs, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the runs go")
    parser.add_argument("--only", default="", help="part of the names of the runs that are made")
    parser.add_argument("--tables", action="store_true", help="make no run")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for experiment in PLAN:
        if given.only in experiment.name and not given.tables:
            make(given.folder, experiment)
    show(given.folder)


if __name__ == "__main__":
    main()
