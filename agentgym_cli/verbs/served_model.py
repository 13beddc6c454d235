"""Which model folder an evaluation on engine verl is of: the recipe's own, one that is named, or the last checkpoint of a run, merged into one."""

from __future__ import annotations

import re
from pathlib import Path

from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.data import try_find
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.verbs.folders import FROZEN_FILE
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.qualify import require_cheap_checks
from agentgym_cli.verbs.served_checks import ServedModel, require_servable, require_vllm, weights_digest
from agentgym_cli.verbs.train import load_exporter
from agentgym_cli.verbs.turns import turn_tokens
from agentgym_cli.verbs.verl_checkpoints import verl_checkpoint
from agentgym_cli.verbs.verl_place import FOLDER as VERL

_STEP = re.compile(r"step-(\d{6,})")


def find_served(prepared: Prepared, named: Path | None, progress: Progress) -> tuple[ServedModel, str]:
    """The model that acts, checked against tokenizer, budgets and machine, and what pins it by content.

    Args:
        named: folder of a model, or of a run on verl; None is the recipe's own model.

    Raises:
        LockError: vLLM is not installed.
        PolicyError: there is no such model, or it cannot be served.
        TrainerError: GPUs are missing, or the checkpoint cannot be merged.
    """
    require_vllm(prepared.run)
    model = _own(prepared) if named is None else _named(prepared, named, progress)
    require_servable(prepared.run, model)
    if named is None:
        require_cheap_checks(prepared, progress)
    turn_tokens(prepared.run, beside=prepared.frozen.beside, folder=model.tokenizer)
    whose = f"model {prepared.run.policy.own_model.path}" if named is None else f"checkpoint of step {model.step}"
    return model, f"{whose}, weights {weights_digest(model.folder)}"


def refuse_verl(checkpoint: Path) -> None:
    """Raise PolicyError where the local engine is given what verl trained."""
    if _engine(checkpoint) == "verl":
        raise PolicyError(
            f"{checkpoint}: expected a checkpoint of engine local, got a run on engine verl",
            f"name a profile of engine verl: agentgym eval RECIPE profile=NAME --checkpoint {checkpoint}",
        )


def _own(prepared: Prepared) -> ServedModel:
    own, beside = prepared.run.policy.own_model, prepared.frozen.beside
    folder = try_find(own.path, beside=beside)
    if folder is None:
        raise PolicyError(
            f"policy.model.path: expected the files of {own.path} on this machine, got none: an evaluation asks no hub",
            "policy.model.path=FOLDER evaluates a model folder, --checkpoint runs/NAME the last checkpoint of a run",
        )
    return ServedModel(folder=folder, tokenizer=prepared.tokenizer_folder, step=0)


def _named(prepared: Prepared, place: Path, progress: Progress) -> ServedModel:
    engine = _engine(place)
    if engine == "verl":
        place = _merged(prepared, place, progress)
    elif engine is not None or not (place / "config.json").is_file():
        got = "none of them" if engine is None else f"a run on engine {engine}"
        raise PolicyError(
            f"{place}: expected the folder of a model, or of a run on engine verl, got {got}",
            "agentgym export RUN writes a model's folder, for --checkpoint or policy.model.path",
        )
    step = _STEP.fullmatch(place.name)
    return ServedModel(folder=place, tokenizer=place, step=int(step[1]) if step else 0)


def _engine(place: Path) -> str | None:
    """Engine of the run in a folder; None where there is no run."""
    return read_frozen(place / FROZEN_FILE).run.engine.kind if (place / FROZEN_FILE).is_file() else None


def _merged(prepared: Prepared, home: Path, progress: Progress) -> Path:
    """The last checkpoint of a run as a model folder, written where there is none yet."""
    checkpoint = verl_checkpoint(home / VERL, digest=read_frozen(home / FROZEN_FILE).digest, step=None)
    target = home / "export" / f"step-{checkpoint.step:06d}"
    if not target.exists():
        progress.note("export", f"the checkpoint of step {checkpoint.step} is merged into {target}")
        load_exporter()(str(home), step=checkpoint.step, folder=target, database=prepared.database, runs_dir=home.parent)
    return target
