"""A report's page in Chromium: it renders light and dark, without script or network, and what slips into it is not run."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from agentgym_cli.report.html_report import report_page
from agentgym_cli.store.db import Connection
from tests.report.conftest import migrated, store
from tests.report.runs import report_of
from tests.report.test_forms import hostile_run

__all__ = ["migrated", "store"]
pytestmark = pytest.mark.browser
SECONDS = 120
DARK = "--blink-settings=preferredColorScheme=0"
INTRUDER = '<script>document.title = "run"</script><img src="x" onerror="document.title = &quot;run&quot;">'


def chromium(folder: Path, page: Path, *words: str) -> str:
    """What Chromium prints for a page; fails where there is none, as its session is for nothing else."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program is not None, "expected Chromium on the path: apt-get install chromium"
    own = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1000,2000",
    ]
    ended = subprocess.run([program, *own, *words, page.as_uri()], capture_output=True, text=True, timeout=SECONDS, check=True)
    return ended.stdout


def hostile_page(store: Connection, folder: Path) -> Path:
    page = folder / "page.html"
    page.write_text(report_page(report_of(store, folder / "r1", hostile_run())), encoding="utf-8")
    return page


def corner(picture: Path) -> tuple[int, int, int]:
    """Colour of the first pixel of a PNG, which no filter changes."""
    data, place, packed = picture.read_bytes(), 8, b""
    while place < len(data):
        size, kind = int.from_bytes(data[place : place + 4]), data[place + 4 : place + 8]
        packed += data[place + 8 : place + 8 + size] if kind == b"IDAT" else b""
        place += size + 12
    red, green, blue = zlib.decompress(packed)[1:4]
    return red, green, blue


def test_every_section_and_figure_of_a_page_is_there(store: Connection, tmp_path: Path) -> None:
    page = hostile_page(store, tmp_path)
    shown = chromium(tmp_path, page, "--dump-dom")
    for what in ("<h2", "<svg", "<table", "<caption", "<polyline", "<details"):
        assert shown.count(what) == page.read_text(encoding="utf-8").count(what)
    assert shown.count("<svg") >= 2


def test_promise_11_what_slips_into_a_page_is_not_run(store: Connection, tmp_path: Path) -> None:
    page = hostile_page(store, tmp_path)
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("</main>", f"{INTRUDER}</main>"), encoding="utf-8")
    open_to_it = tmp_path / "open.html"
    open_to_it.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8")), encoding="utf-8")
    assert "<title>run</title>" not in chromium(tmp_path, page, "--dump-dom")
    # The same without the page's policy, which shows that the intruder would have been run.
    assert "<title>run</title>" in chromium(tmp_path, open_to_it, "--dump-dom")


@pytest.mark.parametrize(("words", "colour"), [((), (255, 255, 255)), ((DARK,), (0x14, 0x18, 0x1C))], ids=["light", "dark"])
def test_a_page_is_light_or_dark_as_the_reader_prefers(
    store: Connection, tmp_path: Path, words: tuple[str, ...], colour: tuple[int, int, int]
) -> None:
    picture = tmp_path / "page.png"
    chromium(tmp_path, hostile_page(store, tmp_path), "--hide-scrollbars", f"--screenshot={picture}", *words)
    assert corner(picture) == colour
