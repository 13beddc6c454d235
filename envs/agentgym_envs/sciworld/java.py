"""Where the Java runtime and the simulator's archives are; why not, where they are not. Starts nothing but ``java -version``."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGE, VERSION = "scienceworld", "1.2.3"
"""Tasks, scores and words are those of this version; another may differ in each."""
_INSTALL = "pip install 'agentgym-cli[envs-sciworld]'"
_VERSION_SECONDS = 20.0


class Unavailable(ValueError):
    """The world cannot run here; the message says what is missing and what to do about it."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a simulator is started from."""

    java: str
    """The program."""
    classpath: str
    folder: Path
    """The package's folder, which the simulator must run in."""

    @property
    def task_file(self) -> Path:
        """The package's list of tasks."""
        return self.folder / "tasks.json"


def find_runtime() -> Runtime:
    """The runtime; Unavailable where the package or Java is missing."""
    folder = _package_folder()
    archives = (_gateway_archive(), folder / "scienceworld.jar")
    for archive in archives:
        if not archive.is_file():
            raise Unavailable(f"{archive.name} is missing from the installed packages. Install them again: {_INSTALL}")
    # The gateway's own archive comes first: the copy inside the simulator's is older, and neither asks for a secret nor ends with its parent.
    return Runtime(_find_java(), os.pathsep.join(map(str, archives)), folder)


def why_not_java(java: str) -> str | None:
    """None where the program runs, else what it says."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=_VERSION_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as err:
        return str(err)
    return None if done.returncode == 0 else (done.stderr or done.stdout)[:500].strip() or f"exit code {done.returncode}"


def _package_folder() -> Path:
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError as err:
        raise Unavailable(f"The package {PACKAGE} is not installed: {_INSTALL}") from err
    if package.version != VERSION:
        raise Unavailable(f"expected {PACKAGE} {VERSION}, got {package.version}: {_INSTALL}")
    return Path(str(package.locate_file(PACKAGE))).resolve()


def _gateway_archive() -> Path:
    """The archive of py4j, which its package keeps outside its folder."""
    try:
        package = distribution("py4j")
    except PackageNotFoundError as err:
        raise Unavailable(f"The package py4j is not installed: {_INSTALL}") from err
    name = f"py4j{package.version}.jar"
    found = next((file for file in package.files or () if file.name == name), None)
    return Path(name) if found is None else Path(str(package.locate_file(found))).resolve()


def _find_java() -> str:
    """The program of JAVA_HOME where that is set, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        program = shutil.which("java", path=str(Path(home) / "bin"))
        if program is None:
            raise Unavailable(f"JAVA_HOME is {home[:200]}, where there is no bin/java. Set it to a Java runtime (8 or newer), or unset it.")
        return program
    program = shutil.which("java")
    if program is None:
        raise Unavailable(
            "There is no Java runtime: no java on PATH, and JAVA_HOME is not set. "
            "Install one (8 or newer), e.g. apt-get install default-jre-headless, brew install openjdk or conda install openjdk."
        )
    return program
