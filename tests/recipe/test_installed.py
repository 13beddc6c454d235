"""A package's files are compared with its RECORD, and nothing in either can do harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_cli.recipe.installed import Altered, Checked, check_files, find_installed, how_installed
from tests.recipe.packages import finder, install, record_line


def checked(site: Path, name: str = "alpha") -> Checked:
    return check_files(name, find_installed(finder(site))[name])


def altered(file: str, problem: str) -> tuple[Altered, ...]:
    return (Altered(package="alpha", file=file, problem=problem),)  # type: ignore[arg-type]


def test_a_package_as_it_was_installed_is_not_altered(tmp_path: Path) -> None:
    install(tmp_path, "alpha", "1.0", {"alpha/__init__.py": b"one = 1\n", "alpha/data/x.bin": b"\x00\xff"})
    assert checked(tmp_path) == Checked(files=2, altered=())


def test_a_file_of_the_same_size_with_one_other_byte_is_altered(tmp_path: Path) -> None:
    install(tmp_path, "alpha", "1.0")
    (tmp_path / "alpha/__init__.py").write_bytes(b"one = 2\n")
    assert checked(tmp_path).altered == altered("alpha/__init__.py", "other content")


def test_a_longer_file_and_a_missing_one_are_altered(tmp_path: Path) -> None:
    install(tmp_path, "alpha", "1.0", {"alpha/a.py": b"a", "alpha/b.py": b"b"})
    (tmp_path / "alpha/a.py").write_bytes(b"a\n")
    (tmp_path / "alpha/b.py").unlink()
    assert checked(tmp_path) == Checked(files=2, altered=(*altered("alpha/a.py", "other size"), *altered("alpha/b.py", "missing")))


def test_a_folder_in_the_place_of_a_file_is_a_missing_file(tmp_path: Path) -> None:
    install(tmp_path, "alpha", "1.0", {"alpha/a.py": b"a"})
    (tmp_path / "alpha/a.py").unlink()
    (tmp_path / "alpha/a.py").mkdir()
    assert checked(tmp_path).altered == altered("alpha/a.py", "missing")


def test_compiled_files_and_files_without_a_digest_are_not_looked_at(tmp_path: Path) -> None:
    kept = record_line("alpha/a.py", b"a")
    compiled = record_line("alpha/__pycache__/a.cpython-311.pyc", b"gone")
    install(tmp_path, "alpha", "1.0", {"alpha/a.py": b"a"}, record=f"{kept}\n{compiled}\nalpha/gone.txt,,\nalpha-1.0.dist-info/RECORD,,\n")
    assert checked(tmp_path) == Checked(files=1, altered=())


def test_a_script_outside_the_folder_of_packages_is_compared_too(tmp_path: Path) -> None:
    site = tmp_path / "lib/site-packages"
    install(site, "alpha", "1.0", {"../../bin/alpha": b"#!python\n"})
    assert checked(site) == Checked(files=1, altered=())
    (tmp_path / "bin/alpha").write_bytes(b"#!python3")
    assert checked(site).altered == altered("../../bin/alpha", "other content")


def test_a_name_with_a_comma_is_one_name(tmp_path: Path) -> None:
    install(tmp_path, "alpha", "1.0", {"alpha/a,b.py": b"a"})
    assert checked(tmp_path) == Checked(files=1, altered=())


@pytest.mark.parametrize("algorithm", ["sha384", "sha512"])
def test_longer_digests_are_read(tmp_path: Path, algorithm: str) -> None:
    install(tmp_path, "alpha", "1.0", {"alpha/a.py": b"a"}, record=record_line("alpha/a.py", b"a", algorithm))
    assert checked(tmp_path).altered == ()
    (tmp_path / "alpha/a.py").write_bytes(b"b")
    assert checked(tmp_path).altered == altered("alpha/a.py", "other content")


@pytest.mark.parametrize("digest", ["md5=DMF1ucDxtqgxw5niaXcmYQ", "sha256=", "sha256=é", "sha256=!!!!!", "nonsense", "sha256=ypeBEsobvcr6"])
def test_a_digest_that_proves_nothing_never_matches(tmp_path: Path, digest: str) -> None:
    install(tmp_path, "alpha", "1.0", {"alpha/a.py": b"a"}, record=f"alpha/a.py,{digest},1\n")
    assert checked(tmp_path).altered == altered("alpha/a.py", "other content")


def test_a_digest_with_padding_is_read(tmp_path: Path) -> None:
    line = record_line("alpha/a.py", b"a").replace(",1", "=,1")
    install(tmp_path, "alpha", "1.0", {"alpha/a.py": b"a"}, record=line)
    assert checked(tmp_path).altered == ()


def test_promise_11_what_a_record_says_is_a_name_and_never_more(tmp_path: Path) -> None:
    hostile = ["/dev/zero", "a" * 5000, "al\0pha", "../" * 40 + "etc"]
    install(tmp_path, "alpha", "1.0", {}, record="".join(f"{name},sha256=AA,1\n" for name in hostile))
    assert [each.problem for each in checked(tmp_path).altered] == ["missing", "not readable", "missing", "missing"]


def test_a_package_without_a_record_cannot_be_checked_and_is_altered(tmp_path: Path) -> None:
    info = install(tmp_path, "alpha", "1.0")
    (info / "RECORD").unlink()
    assert checked(tmp_path) == Checked(files=0, altered=altered("RECORD", "missing"))
    (info / "RECORD").write_text("")
    assert checked(tmp_path) == Checked(files=0, altered=altered("RECORD", "missing"))


@pytest.mark.parametrize("content", [b"\xff\xfe,sha256=AA,1\n", b'"' + b"x" * 200_000 + b'",sha256=AA,1\n'])
def test_a_record_that_cannot_be_read_is_altered(tmp_path: Path, content: bytes) -> None:
    info = install(tmp_path, "alpha", "1.0")
    (info / "RECORD").write_bytes(content)
    assert checked(tmp_path) == Checked(files=0, altered=altered("RECORD", "not readable"))


def test_names_are_spelled_in_one_way_and_the_first_folder_wins(tmp_path: Path) -> None:
    install(tmp_path / "one", "Alpha_One", "1.0")
    install(tmp_path / "two", "alpha.one", "2.0")
    install(tmp_path / "two", "beta", "3.0")
    found = find_installed(finder(tmp_path / "one", tmp_path / "two"))
    assert {name: each.version for name, each in found.items()} == {"alpha-one": "1.0", "beta": "3.0"}


def test_the_remains_of_a_package_are_no_package(tmp_path: Path) -> None:
    (tmp_path / "alpha-1.0.dist-info").mkdir()
    (tmp_path / "beta-1.0.dist-info").mkdir()
    (tmp_path / "beta-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: beta\n")
    assert find_installed(finder(tmp_path)) == {}


@pytest.mark.parametrize(
    ("origin", "how"),
    [
        (None, "wheel"),
        ({"url": "file:///x", "dir_info": {"editable": True}}, "editable"),
        ({"url": "file:///x", "dir_info": {}}, "wheel"),
        ({"url": "file:///x.whl", "archive_info": {}}, "wheel"),
        ([], "wheel"),
        ("{", "wheel"),
    ],
)
def test_an_editable_install_is_told_from_a_wheel(tmp_path: Path, origin: object, how: str) -> None:
    info = install(tmp_path, "alpha", "1.0")
    if origin is not None:
        (info / "direct_url.json").write_text(origin if isinstance(origin, str) else json.dumps(origin))
    assert how_installed(find_installed(finder(tmp_path))["alpha"]) == how
