"""``agentgym export RUN``: a checkpoint of a run as a model folder, with a card that says where it is from and what it can do. Loads torch."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agentgym_cli.errors import RecipeError, TrainerError
from agentgym_cli.learn.export import Exporting, export_folder, template_of, tokenizer_loader
from agentgym_cli.learn.lora import Adapted
from agentgym_cli.learn.model import WEIGHTS, build_model, load_weights
from agentgym_cli.learn.verl.fidelity import Apart, compare
from agentgym_cli.learn.verl.merge import merge, parameters_of
from agentgym_cli.recipe.canonical import file_digest
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.freeze import Frozen
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.recipe.lock import require_engine
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.report.build import build_report
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.queries import find_run
from agentgym_cli.verbs.folders import FROZEN_FILE, Checkpoint, checkpoint_folder, find_checkpoint
from agentgym_cli.verbs.kept_tokens import kept_of
from agentgym_cli.verbs.model_card import Made, card
from agentgym_cli.verbs.turns import turns_of
from agentgym_cli.verbs.verl_checkpoints import verl_checkpoint
from agentgym_cli.verbs.verl_place import FOLDER as VERL
from agentgym_cli.verbs.verl_place import variables_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedModel:
    """A folder that was written."""

    run: str
    step: int
    folder: Path
    parameters: int
    weights: str
    """SHA-256 of the weights file."""
    apart: Apart | None = None
    """How far a merged model is from what its run sampled; None where nothing was compared."""
    said: str | None = None
    """The same in words; None on engine local, whose weights are exported as they are."""


def export_model(run: str, *, step: int | None, folder: Path | None, database: Path, runs_dir: Path) -> ExportedModel:
    """Write the model of a checkpoint, the last one where ``step`` is None, to ``folder``, or to one beside the others of the run.

    Raises:
        StoreError: the store has no such run.
        RecipeError: the run's folder is not there.
        PolicyError: there is no such checkpoint, or the files that the run was frozen with do not fit it any more.
        TrainerError: the folder is there, or cannot be written.
    """
    home = _home(run, database, runs_dir)
    frozen = read_frozen(home / FROZEN_FILE)
    settings = frozen.run
    if settings.engine.kind == "verl":
        return _merged(home, frozen, step, folder, database)
    checkpoint = _checkpoint(home, step)
    model_folder = find_data(settings.policy.own_model.path, beside=frozen.beside, where="policy.model.path")
    turns = turns_of(settings, beside=frozen.beside)
    # A checkpoint of adapters is of the folder's own weights.
    seed = settings.seed if settings.policy.own_model.weights == "seed" else None
    model = build_model(model_folder, seed=seed, vocabulary=turns.tokens.vocabulary, context=settings.budgets.context_tokens)
    lora = None if settings.train is None else settings.train.lora
    adapted = None if lora is None else Adapted(model, lora, seed=settings.seed)
    load_weights(model, checkpoint.folder / WEIGHTS)
    model = model if adapted is None else adapted.merge()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    target = folder or home / "export" / checkpoint.folder.name
    made = Made(run=home.name, step=checkpoint.step, checkpoint=file_digest(checkpoint.folder / WEIGHTS), parameters=parameters)
    what = Exporting(
        model=model,
        model_folder=model_folder,
        tokenizer_folder=turns.folder,
        layout=turns.tokens.layout,
        template=template_of(turns.tokens.layout) if turns.template is None else turns.template.source,
        stop=min(turns.tokens.stop_ids),
        generation=_generation(settings),
        card=partial(card, frozen, made, build_report(database, home.name)),
    )
    export_folder(target, what)
    return ExportedModel(run=home.name, step=checkpoint.step, folder=target, parameters=parameters, weights=file_digest(target / WEIGHTS))


def _merged(home: Path, frozen: Frozen, step: int | None, folder: Path | None, database: Path) -> ExportedModel:
    """The same of a run on verl, whose shards verl merges: weights in bfloat16."""
    require_engine("verl")
    checkpoint = verl_checkpoint(home / VERL, digest=frozen.digest, step=step)
    target = folder or home / "export" / f"step-{checkpoint.step:06d}"
    if target.exists():
        raise TrainerError(f"{target}: expected a folder that is not there yet, got one that is", "name another one with -o DIR")
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        aside.mkdir(parents=True)
        merge(checkpoint.shards, aside, variables=variables_of(frozen.run))
        parameters = parameters_of(aside / WEIGHTS)
        apart = compare(aside, kept_of(home, frozen.run, checkpoint.step))
        generation = aside / "generation_config.json"
        known = json.loads(generation.read_text(encoding="utf-8")) if generation.is_file() else {}
        generation.write_text(json.dumps({**known, **_generation(frozen.run)}, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        said = "not compared: the run kept no tokens of these weights" if apart is None else apart.sentence()
        made = Made(run=home.name, step=checkpoint.step, checkpoint=file_digest(aside / WEIGHTS), parameters=parameters, apart=said)
        (aside / "README.md").write_text(card(frozen, made, build_report(database, home.name), tokenizer_loader(aside)), encoding="utf-8")
        aside.rename(target)
    except OSError as err:
        raise TrainerError(f"{target}: cannot write the model: {err.strerror or err}", "free some space, or name another place: -o DIR") from err
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return ExportedModel(
        run=home.name, step=checkpoint.step, folder=target, parameters=parameters, weights=file_digest(target / WEIGHTS), apart=apart, said=said
    )


def _home(run: str, database: Path, runs_dir: Path) -> Path:
    """The run's folder, by its path or by its name in the store."""
    if (Path(run) / FROZEN_FILE).is_file():
        return Path(run)
    with open_for_reading(database) as connection:
        name = find_run(connection, run).run
    home = runs_dir / name
    if not (home / FROZEN_FILE).is_file():
        raise RecipeError(
            f"{home}: expected the folder of run {name}, got none with {FROZEN_FILE}", "name its folder, or where it is: --runs-dir DIR"
        )
    return home


def _checkpoint(home: Path, step: int | None) -> Checkpoint:
    return find_checkpoint(home if step is None else checkpoint_folder(home, step))


def _generation(run: Run) -> dict[str, object]:
    sampling = run.policy.sampling
    return {
        "do_sample": True,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_new_tokens": run.budgets.response_tokens,
    }
