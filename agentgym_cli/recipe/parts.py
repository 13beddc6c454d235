"""What each item of a frozen run covers, read from the disk as it is now: file by file, or rule by rule. Digests nothing as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import canonical_json, digest_of, file_digest
from agentgym_cli.recipe.data import PACKAGE, find_data, try_find
from agentgym_cli.recipe.lock import find_lock
from agentgym_cli.recipe.models import UNKNOWN, find_model_lock
from agentgym_cli.recipe.package import folder_files, package_files
from agentgym_cli.recipe.schema.algorithms import DpoSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import TaskLists, TaskRow, select_tasks
from agentgym_cli.recipe.wording import asked, listed, shown
from agentgym_cli.recipe.yaml import YamlFile, read_yaml

Part = Mapping[str, str]
"""Digests or words by name: ``{"config.json": "..."}``."""
Parts = Mapping[str, Part]
"""By item: ``{"model": {"config.json": "..."}}``."""
TASKS = "tasks."
"""How the items of task lists begin: ``tasks.train``, ``tasks.evaluation.NAME``."""
SEMANTICS = "the dialect's semantics"
"""Under ``rules``, what a success of the environment means where the dialect says that it is not what one would think."""
NOT_PINNED = "not pinned"
"""Revision of hub files that nobody named."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_TOKENIZER_FILES = frozenset(
    {
        "added_tokens.json",
        "chat_template.jinja",
        "chat_template.json",
        "merges.txt",
        "special_tokens_map.json",
        "spiece.model",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "vocab.json",
        "vocab.txt",
    }
)
_OUTCOME_TABLE = PACKAGE / "episode" / "outcome.py"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """A run and where its files are looked for first; each file is read once."""

    run: Run
    beside: Sequence[Path]

    @cached_property
    def dialect(self) -> YamlFile:
        """The dialect's file, not yet validated. Raises RecipeError."""
        return read_yaml(dialect_path(self.run.env.dialect, beside=self.beside))

    def parts(self) -> dict[str, Part]:
        """All that the run depends on outside its config and its task lists, by item. Reads whole model folders. Raises RecipeError."""
        return {item: read(self) for item, read in PARTS.items()}

    def lists(self) -> TaskLists:
        """The task lists. Raises RecipeError as ``select_tasks`` does."""
        return select_tasks(self.run.tasks, env=_name_in(self.dialect), beside=self.beside)


def task_parts(lists: TaskLists) -> dict[str, Part]:
    """How many tasks each list has, which, and in which order."""
    found = {f"{TASKS}evaluation.{name}": _rows(rows) for name, rows in lists.evaluation.items()}
    return {f"{TASKS}train": _rows(lists.train)} | found if lists.train else found


def _rows(rows: Sequence[TaskRow]) -> Part:
    """``rows`` is equal for equal tasks in any order."""
    values = [[row.index, row.split, row.category, row.goal, row.digest] for row in rows]
    return {"count": str(len(rows)), "rows": digest_of(sorted(values, key=canonical_json)), "order": digest_of(values)}


def dialect_path(name: str, *, beside: Sequence[Path]) -> Path:
    """File of a dialect: a shipped one by name, or any by path (anything with a slash or an ending). Raises RecipeError."""
    if "/" in name or Path(name).suffix:
        return find_data(name, beside=beside, where="env.dialect")
    shipped = {path.stem: path for path in (PACKAGE / "env" / "dialects").glob("*.yaml")}
    if name not in shipped:
        hint = f"{asked(name, shipped)} A dialect of your own is named by its path".lstrip()
        raise RecipeError(f"env.dialect: expected one of {listed(sorted(shipped))}, got {shown(name)}", hint=hint)
    return shipped[name]


def dialect_name(name: str, *, beside: Sequence[Path]) -> str:
    """What ids of tasks start with: the name that a dialect's file gives itself. Raises RecipeError."""
    return _name_in(read_yaml(dialect_path(name, beside=beside)))


def _name_in(dialect: YamlFile) -> str:
    said = dialect.data.get("name")
    if not isinstance(said, str):
        raise RecipeError(f"{dialect.path}: name: expected the dialect's name, got {shown(said)}")
    return said


def _dialect(sources: Sources) -> Part:
    name = sources.run.env.dialect
    return {name if PurePosixPath(name).suffix else f"{name}.yaml": _digest_of_file(dialect_path(name, beside=sources.beside))}


def _prompt(sources: Sources) -> Part:
    """The text that the policy is told, wherever it comes from."""
    system = sources.run.prompt.system
    if system == "none":
        return {"none": "says nothing"}
    if system is not None:
        return {system: _digest_of_file(find_data(system, beside=sources.beside, where="prompt.system"))}
    path, data = sources.dialect.path, sources.dialect.data
    actions = data.get("actions")
    spoken = actions.get(sources.run.prompt.action_format) if isinstance(actions, dict) else None
    name = (spoken.get("prompt") if isinstance(spoken, dict) else None) or data.get("prompt")
    if not isinstance(name, str):
        raise RecipeError(f"{path}: prompt: expected the name of a file beside the dialect, got {shown(name)}")
    return {name: _digest_of_file(path.parent / name)}


def _rules(sources: Sources) -> Part:
    """What ends an episode and what it then counts as, as far as it is not in the config."""
    data = sources.dialect.data
    routes = data.get("routes")
    step, verify = (routes.get(name) if isinstance(routes, dict) else None for name in ("step", "verify"))
    done = {"done": step.get("done") if isinstance(step, dict) else None, "sticky": data.get("done_sticky")}
    rules = {"success": data.get("success"), "done": done, "verifier": verify}
    words = {f"the dialect's {name}": canonical_json(rule) for name, rule in rules.items()}
    semantics = data.get("semantics")
    if isinstance(semantics, str):
        words[SEMANTICS] = semantics
    return words | {"outcome table": _digest_of_file(_OUTCOME_TABLE)}


def _model(sources: Sources) -> Part:
    model = sources.run.policy.model
    if model is None:
        return {}
    found = _folder_or_hub(sources, model.path, "config.json and tokenizer.json", where="policy.model.path")
    if found is None:
        return _hub(model.path, model.revision, _is_models)
    return folder_files(found, wanted=_is_models)


def _tokenizer(sources: Sources) -> Part:
    model = sources.run.policy.model
    if model is None:
        return {}
    name, where = model.tokenizer or model.path, "policy.model.path" if model.tokenizer is None else "policy.model.tokenizer"
    found = _folder_or_hub(sources, name, "tokenizer.json", where=where)
    if found is None:
        files = _hub(name, model.revision if name == model.path else None, _is_tokenizers)
    else:
        files = folder_files(found, wanted=_is_tokenizers)
    if not files and model.tokenizer is not None:
        raise RecipeError(f"{where}: expected a folder with tokenizer.json, got {shown(str(found))} without one")
    if model.chat_template is None:
        return files
    template = find_data(model.chat_template, beside=sources.beside, where="policy.model.chat_template")
    return {**files, f"chat template {model.chat_template}": _digest_of_file(template)}


def _folder_or_hub(sources: Sources, name: str, holds: str, *, where: str) -> Path | None:
    """A folder that holds files of a model, None for a hub name that the engine fetches."""
    found = try_find(name, beside=sources.beside)
    if found is None and sources.run.engine.kind != "local" and _HUB_NAME.fullmatch(name):
        return None
    folder = found or find_data(name, beside=sources.beside, where=where)
    if not folder.is_dir():
        raise RecipeError(f"{where}: expected a folder with {holds}, got the file {shown(str(folder))}")
    return folder


def _hub(name: str, revision: str | None, wanted: Callable[[str], bool]) -> dict[str, str]:
    """What is known of files that a hub has; the digests of lockfiles/models.yaml are of its revision and of no other."""
    lock = find_model_lock(name)
    known = lock.files if lock is not None and revision is not None and lock.revision == revision else {}
    return {"hub": name, "revision": revision or NOT_PINNED} | {file: digest or UNKNOWN for file, digest in known.items() if wanted(file)}


def _is_models(name: str) -> bool:
    return not _is_tokenizers(name)


def _is_tokenizers(name: str) -> bool:
    path = PurePosixPath(name)
    return path.name in _TOKENIZER_FILES or path.suffix == ".tiktoken"


def _data(sources: Sources) -> Part:
    """Files that learning from stored data reads: a source's own file, or the frozen run and the journal of a run."""
    found: dict[str, str] = {}
    for key, name in data_paths(sources.run):
        path = find_data(name, beside=sources.beside, where=key)
        files = sorted([path / "frozen.json", *(path / "journal").glob("*.jsonl")]) if path.is_dir() else [path]
        found |= {name if file == path else f"{name}/{file.relative_to(path).as_posix()}": _digest_of_file(file) for file in files}
    return found


def data_paths(run: Run) -> Iterator[tuple[str, str]]:
    """Keys and paths of the stored data that a run learns from."""
    algorithm = None if run.train is None else run.train.algorithm
    named = "pairs" if isinstance(algorithm, DpoSpec) else "demonstrations"
    for number, source in enumerate(getattr(algorithm, named, ())):
        if (path := getattr(source, "path", None)) is not None:
            yield f"train.algorithm.{named}[{number}].path", path


def _lock(sources: Sources) -> Part:
    stack = sources.run.engine.stack
    return {f"{stack}.txt": file_digest(find_lock(stack))}


def _package(sources: Sources) -> Part:
    return package_files()


def _digest_of_file(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError as err:
        raise RecipeError(f"{path}: expected a readable file, got: {err.strerror}") from err


PARTS: Mapping[str, Callable[[Sources], Part]] = {
    "dialect": _dialect,
    "prompt": _prompt,
    "rules": _rules,
    "model": _model,
    "tokenizer": _tokenizer,
    "data": _data,
    "lock": _lock,
    "package": _package,
}
"""By item, how it is read; the task lists are read together."""
