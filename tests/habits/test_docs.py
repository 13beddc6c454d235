"""The pages say what the program says now, and every page and link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentgym_cli.errors import ExitCode
from docs.generate import BLOCK, exit_codes, render

HOUSE = Path(__file__).resolve().parents[2]
PAGES = sorted((HOUSE / "docs").glob("*.md"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def shown_commands(text: str) -> list[str]:
    return re.findall(r"^  ([a-z]+) ", text.partition("Commands:\n")[2], re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_blocks_are_what_the_program_says(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert render(text) == text, "run: python docs/generate.py"


def test_every_command_has_a_page_with_its_help() -> None:
    commands = shown_commands((HOUSE / "docs/index.md").read_text(encoding="utf-8"))
    assert {"train", "eval", "probe", "report", "freeze", "serve"} <= set(commands)
    blocks = {
        command: [block["what"] for block in BLOCK.finditer((HOUSE / f"docs/{command}.md").read_text(encoding="utf-8"))] for command in commands
    }
    assert [command for command in commands if not any(what.startswith(f"agentgym {command} ") for what in blocks[command])] == []


def test_a_stale_block_is_seen() -> None:
    page = "before\n<!-- exit codes -->\n| old |\n<!-- end -->\nafter\n"
    assert render(page) == f"before\n<!-- exit codes -->\n{exit_codes()}<!-- end -->\nafter\n"


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
