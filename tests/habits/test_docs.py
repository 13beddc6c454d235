"""The pages say what the program says now, and every page and link leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from agentgym_cli.cli.commands import app
from agentgym_cli.errors import ExitCode
from docs.generate import BLOCK, TABLES, exit_codes, render

HOUSE = Path(__file__).resolve().parents[2]
PAGES = sorted((HOUSE / "docs").glob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def every_command(app: typer.Typer, prefix: str = "agentgym") -> Iterator[str]:
    """Names of the commands of a tree, with those of its groups."""
    for command in app.registered_commands:
        assert command.callback is not None
        yield f"{prefix} {command.name or command.callback.__name__}"
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from every_command(group.typer_instance, f"{prefix} {group.name}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_blocks_are_what_the_program_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert render(text) == text, "run: python docs/generate.py"


def test_every_command_has_its_help_on_the_page_of_its_name() -> None:
    commands = list(every_command(app))
    assert {"agentgym train", "agentgym eval", "agentgym store rebuild"} <= set(commands)
    blocks = {(page.stem, block["what"]) for page in PAGES for block in BLOCK.finditer(page.read_text(encoding="utf-8"))}
    assert [command for command in commands if (command.split()[1], f"{command} --help") not in blocks] == []


def test_a_stale_block_is_seen() -> None:
    page = "before\n<!-- exit codes -->\n| old |\n<!-- end -->\nafter\n"
    assert render(page) == f"before\n<!-- exit codes -->\n{exit_codes()}<!-- end -->\nafter\n"


@pytest.mark.parametrize("name", ["gate kets", "agentgym eval", "Exit codes", "exit codes "])
def test_a_block_that_nobody_writes_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"block '{name}': expected agentgym VERB --help or one of"):
        render(f"<!-- {name} -->\n| old |\n<!-- end -->\n")


def test_a_block_that_would_be_empty_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "checks", str)
    for name in ("checks", "recipe keys"):
        with pytest.raises(ValueError, match=f"block '{name}': expected lines, got none"):
            render(f"<!-- {name} -->\n<!-- end -->\n")


def test_every_block_that_is_opened_is_closed() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(re.findall(r"<!-- ", text)) == 2 * len(BLOCK.findall(text)), page.name


def test_the_pages_of_gates_and_reports_have_their_tables() -> None:
    bodies = {block["what"]: block["body"] for page in PAGES for block in BLOCK.finditer(page.read_text(encoding="utf-8"))}
    assert "| `maximum_infra_share` |" in bodies["gate keys"]
    assert "| rule |" in bodies["diagnosis rules"]


def test_the_table_has_every_exit_code_once() -> None:
    rows = [line.split("|")[1:3] for line in exit_codes().splitlines()[2:]]
    assert [(int(code), name.strip()) for code, name in rows] == [(code.value, code.name.lower()) for code in ExitCode]


def test_every_link_between_pages_leads_to_a_file() -> None:
    pages = [*PAGES, *HOUSE.glob("*.md")]
    links = [(page, link) for page in pages for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [f"{page.name}: {link}" for page, link in links if not (page.parent / link).exists()] == []


def test_every_page_can_be_reached_from_the_index() -> None:
    linked = set(LINK.findall((HOUSE / "docs/index.md").read_text(encoding="utf-8")))
    assert {page.name for page in PAGES} - linked == {"index.md"}


def test_ci_runs_the_test_line_of_the_readme() -> None:
    line = re.search(r"^line='(.+)'$", (HOUSE / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE)
    assert line is not None
    assert line[1] in (HOUSE / "README.md").read_text(encoding="utf-8").splitlines()
