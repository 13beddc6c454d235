"""The house's limits on source files: sizes, names, broad excepts, empty packages, module docstrings. Reads text, imports nothing of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOMS = ("agentgym_cli", "envs", "lockfiles", "tests", "benchmarks", "docs", "noxfile.py")
FILE_LINES = 500
FUNCTION_LINES = 60
DOCSTRING_LINES = 5
LONG_DOCSTRING_LINES = 15
LONG_DOCSTRINGS = ("agentgym_cli/learn/", "benchmarks/")
"""Where a module docstring states paper, formula and assumptions, or how to run a measurement and what it prints."""
NAMELESS = ("utils.py", "common.py", "helpers.py", "base_*.py")
BROAD_EXCEPT_ALLOWED = ("agentgym_cli/episode/loop.py", "agentgym_cli/env/probe.py", "agentgym_cli/cli/main.py")


def sources(root: Path) -> list[Path]:
    """Every Python file of the house under ``root``, sorted."""
    rooms = [root / room for room in ROOMS]
    return sorted(path for room in rooms for path in ([room] if room.is_file() else room.rglob("*.py")))


def violations(root: Path) -> list[str]:
    """What breaks a limit, one ``path:line: claim`` each."""
    return [f"{path.relative_to(root).as_posix()}:{line}: {claim}" for path in sources(root) for line, claim in check(root, path)]


def check(root: Path, path: Path) -> Iterator[tuple[int, str]]:
    """The violations of one file, each with its line."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(root).as_posix()
    if any(path.match(pattern) for pattern in NAMELESS):
        yield 1, f"{path.name} is not a name: call it after what it owns"
    if path.name == "__init__.py":
        if text.strip():
            yield 1, "__init__.py is not empty"
        return
    if (length := text.count("\n")) > FILE_LINES:
        yield length, f"{length} lines, more than {FILE_LINES}"
    tree = ast.parse(text, filename=name)
    yield from docstring(tree, LONG_DOCSTRING_LINES if name.startswith(LONG_DOCSTRINGS) else DOCSTRING_LINES)
    for node in ast.walk(tree):
        yield from long_function(node)
        if name not in BROAD_EXCEPT_ALLOWED:
            yield from broad_except(node)


def docstring(tree: ast.Module, most: int) -> Iterator[tuple[int, str]]:
    """A module says what it owns, in one to ``most`` lines."""
    text = ast.get_docstring(tree, clean=True)
    if not text or not text.strip():
        yield 1, "no module docstring"
    elif (lines := text.count("\n") + 1) > most:
        yield 1, f"a module docstring of {lines} lines, more than {most}"


def long_function(node: ast.AST) -> Iterator[tuple[int, str]]:
    """A function's lines run from ``def`` to its last one, docstring included, decorators not."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        assert node.end_lineno is not None
        if (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES:
            yield node.lineno, f"{node.name} has {lines} lines, more than {FUNCTION_LINES}"


def broad_except(node: ast.AST) -> Iterator[tuple[int, str]]:
    """``except:``, ``except Exception`` and ``except BaseException`` (which may clean up when it ends in ``raise``), and suppressing them."""
    if isinstance(node, ast.ExceptHandler):
        caught = {"everything"} if node.type is None else broad_names(node.type)
        cleans_up = caught == {"BaseException"} and isinstance(last := node.body[-1], ast.Raise) and last.exc is None
        if caught and not cleans_up:
            yield node.lineno, f"catches {', '.join(sorted(caught))}"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        for name in sorted(set().union(*map(broad_names, node.args))) if called == "suppress" else []:
            yield node.lineno, f"suppresses {name}"


def broad_names(node: ast.AST) -> set[str]:
    """Which of the two broad classes an expression names."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} & {"Exception", "BaseException"}
