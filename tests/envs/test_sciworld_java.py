"""Java and the simulator's archives: found where they are, explained where they are not. Nothing here needs either."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from agentgym_envs.sciworld.java import Unavailable, find_runtime, why_not_java
from agentgym_envs.sciworld.options import add_options, build, ready


def program(folder: Path, text: str = "#!/bin/sh\nexit 0\n") -> Path:
    """A program called java in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(text, encoding="utf-8")
    java.chmod(0o755)
    return java


def install(site: Path, name: str, version: str, *files: str) -> None:
    """A package as its installer leaves it, with files of a few bytes."""
    information = site / f"{name}-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (information / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")
    for file in files:
        (site / file).resolve().parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_bytes(b"here")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with both packages in ``site`` and Java on PATH in ``bin``."""
    site = tmp_path / "lib/site"
    install(site, "scienceworld", "1.2.3", "scienceworld/scienceworld.jar", "scienceworld/tasks.json")
    install(site, "py4j", "0.10.9.9", "py4j/java_gateway.py", "../../share/py4j/py4j0.10.9.9.jar")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PATH", str(program(tmp_path / "bin").parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def test_the_archives_and_java_are_found(machine: Path) -> None:
    runtime = find_runtime()
    archives = [machine / "share/py4j/py4j0.10.9.9.jar", machine / "lib/site/scienceworld/scienceworld.jar"]
    assert runtime.classpath.split(os.pathsep) == list(map(str, archives))
    assert (runtime.java, runtime.folder) == (str(machine / "bin/java"), machine / "lib/site/scienceworld")
    assert runtime.task_file.read_bytes() == b"here"
    assert ready() is None


def test_java_home_comes_before_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = program(machine / "jdk/bin")
    monkeypatch.setenv("JAVA_HOME", str(machine / "jdk"))
    assert find_runtime().java == str(java)


def test_a_java_home_without_java_is_said_and_never_passed_over(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(machine / "lib"))
    assert ready() == f"JAVA_HOME is {machine / 'lib'}, where there is no bin/java. Set it to a Java runtime (8 or newer), or unset it."


def test_no_java_is_said_with_what_to_install(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine / "lib"))
    said = ready()
    assert said is not None
    assert said.startswith("There is no Java runtime: no java on PATH, and JAVA_HOME is not set. Install one (8 or newer), e.g. apt-get install ")


def test_another_version_of_the_package_is_refused(machine: Path) -> None:
    (machine / "lib/site/scienceworld-1.2.3.dist-info").rename(machine / "lib/site/scienceworld-1.3.0.dist-info")
    (machine / "lib/site/scienceworld-1.3.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: scienceworld\nVersion: 1.3.0\n")
    assert ready() == "expected scienceworld 1.2.3, got 1.3.0: pip install 'agentgym-cli[envs-sciworld]'"


@pytest.mark.parametrize("archive", ["share/py4j/py4j0.10.9.9.jar", "lib/site/scienceworld/scienceworld.jar"])
def test_an_archive_that_is_missing_is_said(machine: Path, archive: str) -> None:
    (machine / archive).unlink()
    with pytest.raises(Unavailable, match=rf"^{Path(archive).name} is missing from the installed packages\."):
        find_runtime()


def test_a_java_that_does_not_run_is_refused_with_its_own_words(machine: Path) -> None:
    program(machine / "bin", "#!/bin/sh\necho 'no libjvm.so' >&2\nexit 127\n")
    assert why_not_java(str(machine / "bin/java")) == "no libjvm.so"
    with pytest.raises(Unavailable, match=r"^The simulator did not start: .*; .*java -version says: no libjvm\.so$"):
        build(argparse.Namespace(simulators=1, call_seconds=20))


def test_a_simulator_that_starts_too_slowly_is_refused_by_the_option_that_is_too_small(machine: Path) -> None:
    program(machine / "bin", "#!/bin/sh\nread line\n")
    with pytest.raises(Unavailable, match=r"^The simulator did not start: nothing printed in time: 0\.4 seconds, 80% of --call-seconds;"):
        build(argparse.Namespace(simulators=1, call_seconds=0.5))


@pytest.mark.parametrize("text", ["x", "0", "-1", "1.5", "", "1e3", "²", "9" * 5000])
def test_a_number_of_simulators_that_is_none_is_refused_in_words(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    with pytest.raises(SystemExit):
        parser.parse_args([f"--simulators={text}"])
    assert f"argument --simulators: expected a whole number of at least 1, got {text[:40]!r}\n" in capsys.readouterr().err


def test_a_java_that_cannot_be_executed_is_said(tmp_path: Path) -> None:
    (tmp_path / "java").write_bytes(b"\x00")
    (tmp_path / "java").chmod(0o755)
    assert "Exec format error" in str(why_not_java(str(tmp_path / "java")))
