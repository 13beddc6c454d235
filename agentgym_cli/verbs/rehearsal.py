"""The model of a launch on verl: the recipe's own, or in a rehearsal a tiny one in its place. Loads torch only for a rehearsal."""

from __future__ import annotations

import shutil
from pathlib import Path

from agentgym_cli.errors import PolicyError
from agentgym_cli.recipe.data import try_find
from agentgym_cli.verbs.devices import shape_of
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.verl_place import rehearses

UNPROVEN = "NCCL, CUDA IPC, vLLM's sleep mode, flash attention, tensor parallelism and the memory of real weights"
"""What a rehearsal on a CPU cannot prove."""


def model_folder(prepared: Prepared, folder: Path) -> str:
    """Folder of the model that is trained, or its name where it is on no disk here; ``folder`` is the launch's own."""
    if rehearses(prepared.run):
        return str(folder / "model")
    name = prepared.run.policy.own_model.path
    found = try_find(name, beside=prepared.frozen.beside)
    return name if found is None else str(found.absolute())


def rehearsal_model(prepared: Prepared, place: Path, *, kept: bool, progress: Progress) -> Path:
    """A tiny model in place of the recipe's, which is its tokenizer's folder too.

    Args:
        kept: the one that is there already is the run's.

    Raises:
        PolicyError: a chat template's tokenizer is not on this machine, or an architecture of another kind.
    """
    from agentgym_cli.episode.layouts import LAYOUTS
    from agentgym_cli.learn.verl.tiny import make_tiny

    run = prepared.run
    model = run.policy.own_model
    own = try_find(model.tokenizer or model.path, beside=prepared.frozen.beside)
    if run.prompt.turn_format == "template" and own is None:
        raise PolicyError("rehearsal: expected the tokenizer of a chat template on this machine, got none", "set prompt.turn_format=chatml")
    if not kept or not (place / "config.json").is_file():
        shutil.rmtree(place, ignore_errors=True)
        layout = LAYOUTS["chatml" if run.prompt.turn_format == "template" else run.prompt.turn_format]
        count = make_tiny(place, kind=_kind(prepared), tokenizer=own, layout=layout, context=run.budgets.context_tokens, seed=run.seed)
        told = "a token is a byte" if own is None else f"the tokenizer of {model.tokenizer or model.path}"
        progress.note("model", f"{count:,} weights in place of {model.path}; {told}")
    progress.note("rehearsal", f"not proven on a CPU: {UNPROVEN}")
    return place


def _kind(prepared: Prepared) -> str:
    shape, _ = shape_of(prepared.run, prepared.frozen.beside)
    return "qwen3" if shape.head_norms else "qwen2" if shape.biased else "llama"
