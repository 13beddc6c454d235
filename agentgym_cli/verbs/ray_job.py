"""``agentgym train --ray-job``: freeze here, train there. The run's folder is on a disk that both see; the program travels with the job."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.learn.verl.jobs import JobServer, connect, follow, submit
from agentgym_cli.recipe.data import PACKAGE, shipped_root
from agentgym_cli.recipe.freeze import Frozen
from agentgym_cli.recipe.lock import require_engine
from agentgym_cli.verbs.interrupts import run_interruptible
from agentgym_cli.verbs.prepare import new_name
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.request import Request
from agentgym_cli.verbs.target import find_target
from agentgym_cli.verbs.verl_place import settings_of

SUBMITTED = ".submitted"
"""In the folder of runs: frozen runs on their way to a cluster, which shows as well that the cluster sees that folder."""
_LEFT = shutil.ignore_patterns("__pycache__", "_data", ".*")


def one_place(*, as_json: bool, ray_address: str | None) -> None:
    """Refuse words that a job cannot keep. Raises RecipeError."""
    if ray_address is not None:
        raise RecipeError("--ray-job: expected no --ray-address beside it, got one: the job's cluster is the server's own")
    if as_json:
        raise RecipeError("--ray-job: expected no --json beside it, got it: a job has one log", "agentgym report RUN --json, once it has ended")


def train_as_job(request: Request, address: str, progress: Progress) -> int:
    """Train on the cluster whose job server is at ``address``, and return the exit status of ``agentgym train`` there.

    Raises:
        RecipeError: what cannot be meant, before anything is sent.
        TrainerError: the job server, or a job that it lost.
        Interrupted: stopped here, and there.
    """
    require_engine("verl")
    words = words_of(request)
    server = connect(address)
    job = send(server, words)
    progress.note("job", f"{job} at {address}; Ctrl-C stops it")
    hint = f"agentgym train RUN --resume --ray-job {address} goes on"
    return run_interruptible(follow(server, job, write=_say), hint)


def send(server: JobServer, words: list[str]) -> str:
    """Have the cluster run ``agentgym train WORDS`` with the program that runs here; the job's name."""
    with TemporaryDirectory() as place:
        carry_program(Path(place))
        return submit(server, shlex.join(["python", "-m", PACKAGE.name, "train", *words]), program=Path(place), metadata={"agentgym": words[0]})


def words_of(request: Request) -> list[str]:
    """What ``agentgym train`` is told on the cluster: a frozen run, or the folder of one that goes on, with every path in full.

    Raises:
        RecipeError: another engine, or what ``find_target`` and ``settings_of`` refuse.
        StoreError: the frozen run cannot be written.
    """
    target = find_target(request, "train")
    run = target.frozen.run
    if run.engine.kind != "verl":
        raise RecipeError(f"--ray-job: expected a profile of engine verl, got {run.profile}, of engine {run.engine.kind}", "name it: profile=gpu")
    settings_of(run)
    runs = (request.runs_dir or Path(run.store.runs_dir)).absolute()
    store = ["--store", str((request.database or Path(run.store.database)).absolute())]
    allowed = [f"--allow-{name}" for name, given in (("degraded", request.allow_degraded), ("drift", request.allow_drift)) if given]
    # The job's own cluster, by the variable that Ray gives it.
    where = "cluster.ray_address=auto"
    if target.folder is not None:
        others = [each for each in request.overrides if not each.startswith("cluster.ray_address=")]
        return [str(target.folder.absolute()), *others, where, "--resume", *store, *allowed]
    return [str(_written(target.frozen, runs)), where, "--runs-dir", str(runs), *store, *allowed]


def _written(frozen: Frozen, runs: Path) -> Path:
    place = runs / SUBMITTED / f"{new_name(frozen.run, frozen.digest)}.json"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        frozen.write(place)
    except OSError as err:
        raise StoreError(
            f"{place}: expected to write the frozen run, got: {err.strerror or err}", "--runs-dir names a disk that the cluster sees"
        ) from err
    return place


def carry_program(folder: Path) -> None:
    """Put what runs here into a folder from which it runs as well: the program, its worlds, recipes and locks, whether from a wheel or a checkout."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=_LEFT)
    for name in ("recipes", "lockfiles"):
        shutil.copytree(shipped_root() / name, folder / PACKAGE.name / "_data" / name, ignore=_LEFT)
    worlds = find_spec("agentgym_envs")
    for place in (worlds.submodule_search_locations or ()) if worlds is not None else ():
        shutil.copytree(place, folder / "agentgym_envs", ignore=_LEFT, dirs_exist_ok=True)
    # By which ``importlib.metadata`` knows the version.
    known = distribution("agentgym-cli")
    about = folder / f"agentgym_cli-{known.version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(known.read_text("METADATA") or "", encoding="utf-8")


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
