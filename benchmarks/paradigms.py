"""Every learning algorithm on the laptop world, and a growing horizon against fixed ones, through the real command; then their tables.

    OMP_NUM_THREADS=1 python benchmarks/paradigms.py --folder F              # makes what is not there yet, one run at a time
    OMP_NUM_THREADS=1 python benchmarks/paradigms.py --folder F --only grpo  # what has this word in its name

A finished run is not made again; one that was stopped is resumed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
LONGEST_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One run."""

    name: str
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


def online(kind: str, *seeds: int, turns: int | None = None) -> list[Experiment]:
    """Runs of one recipe's laptop profile; ``turns`` in place of its stages."""
    name = kind if turns is None else f"{kind}_fixed_{turns}"
    words = ("profile=laptop", *(() if turns is None else (f"horizon={{kind: fixed, turns: {turns}}}",)))
    return [Experiment(name=f"{name}_seed_{seed}", recipe=f"textcraft_{kind}", seed=seed, words=words) for seed in seeds]


def stored(kind: str) -> Experiment:
    """A run of a recipe that has one profile."""
    return Experiment(name=f"{kind}_seed_1", recipe=f"textcraft_{kind}", seed=1)


PLAN = (
    *online("grpo", 1),
    *online("ppo", 1),
    *online("rloo", 1),
    *online("reinforce_pp", 1),
    *map(stored, ("sft", "dpo", "agentevol")),
    *online("grpo", 2, 3),
    *(each for seed in (1, 2, 3) for turns in (8, 12) for each in online("grpo", seed, turns=turns)),
)


def agentgym(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """One command in ``folder``, its progress on standard error."""
    return subprocess.run(
        [sys.executable, "-m", "agentgym_cli", *words], cwd=folder, timeout=LONGEST_SECONDS, stdout=subprocess.PIPE, text=True, check=False
    )


def made(folder: Path, experiment: Experiment) -> bool:
    """Whether the run is there and finished; it is made, or gone on with, when it is not."""
    home = experiment.home(folder)
    words = experiment.command if home is None else ("train", f"runs/{home.name}", "--resume")
    sys.stderr.write(f"{experiment.name}\n")
    return agentgym(folder, *words).returncode == 0


def main() -> None:
    """Make the runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the runs go")
    parser.add_argument("--only", default="", help="part of the names of runs")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for experiment in PLAN:
        if given.only in experiment.name:
            made(given.folder, experiment)


if __name__ == "__main__":
    main()
