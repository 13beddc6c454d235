"""The viewer in Chromium: filters, addresses, keys, a live run, hostile text, sizes, and what screen readers are told."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from agentgym_cli.store.loader import load
from agentgym_cli.store.records import Record
from tests.store.builders import make_attempt, make_outcome, make_run, make_scheduled, make_segment, make_turn, settled, write_journal
from tests.view.stories import HOSTILE, RUNS, TOKENS

pytestmark = pytest.mark.browser
BIG = 10_000_000
EPISODE = "episode=eval%2Ftest%2F0%2Ftextcraft_"


def _big() -> list[Record]:
    """An episode that was shown ten million characters, and one of a thousand turns with tokens."""
    scheduled, long = make_scheduled(0, run="big"), make_scheduled(1, run="big", horizon=1000)
    attempt = replace(make_attempt(scheduled, "failure"), turns=(make_turn(1, observation="\x1b[2J" + "x" * BIG), make_turn(2)))
    thousand = replace(make_attempt(long, "success", turns=1000), tokens=TOKENS)
    return [make_run("big"), make_segment(run="big"), scheduled, attempt, make_outcome(attempt), long, thousand, make_outcome(thousand)]


def _two_pages() -> list[Record]:
    """A hundred successes of one turn, and behind them a failure of two."""
    records: list[Record] = [make_run("two"), make_segment(run="two")]
    for number in range(101):
        records += settled(make_scheduled(number, run="two"), "success" if number < 100 else "failure", turns=1 + number // 100)
    return records


@dataclass(slots=True)
class Site:
    """A viewer that runs, and its pages."""

    root: str
    database: Path
    said: list[str] = field(default_factory=list)
    """What a page's console said, and every address outside of this server."""

    def to(self, page: Page, path: str) -> Page:
        page.goto(f"{self.root}{path}")
        return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    database = folder / "results.duckdb"
    for name, segments in (RUNS | {"big": [_big()], "two": [_two_pages()]}).items():
        load(write_journal(folder / "runs" / name, *segments), database)
    command = [sys.executable, "-m", "agentgym_cli", "view", "--store", str(database), "--runs-dir", str(folder / "runs"), "--no-open", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield Site(json.loads(server.stdout.readline())["url"], database)
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0, "a signal ends it well"
        server.communicate()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program is not None, "expected Chromium on the path: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser, site: Site) -> Iterator[Page]:
    """A page whose console has to stay silent: what the policy forbids is said there."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    site.said.clear()
    page.on("console", lambda message: site.said.append(message.text))
    page.on("pageerror", lambda error: site.said.append(str(error)))
    page.on("dialog", lambda dialog: site.said.append(dialog.message))
    page.on("request", lambda request: None if request.url.startswith(site.root) else site.said.append(request.url))
    yield page
    context.close()
    assert site.said == []


def test_a_filter_is_in_the_address_and_the_address_gives_the_same_list(site: Site, page: Page) -> None:
    site.to(page, "episodes?run=a")
    page.get_by_role("combobox", name="outcome", exact=True).select_option("failure")
    page.get_by_role("combobox", name="sort by").select_option("turns")
    page.get_by_role("textbox", name="task", exact=True).fill("textcraft_9")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#counted")).to_have_text("1 to 1 of 1 episodes")
    assert page.url == f"{site.root}episodes?run=a&outcome=failure&task=textcraft_9&sort=turns"
    # What a page reads as depends on its style.
    page.wait_for_load_state()
    shown = page.locator("main").inner_text()
    other = page.context.new_page()
    other.goto(page.url)
    assert other.locator("main").inner_text() == shown
    other.close()


def test_text_in_any_turn_is_found(site: Site, page: Page) -> None:
    site.to(page, "episodes?run=a")
    page.keyboard.press("/")
    page.keyboard.type("TAKE A")
    page.keyboard.press("Enter")
    expect(page.locator("#counted")).to_have_text("1 to 1 of 1 episodes")
    assert "text=TAKE+A" in page.url


def test_keys_go_through_a_list_and_from_episode_to_episode(site: Site, page: Page) -> None:
    site.to(page, "episodes?run=a&outcome=failure")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{EPISODE}3*")
    page.keyboard.press("n")
    page.wait_for_url(f"**{EPISODE}4*")
    page.keyboard.press("p")
    page.wait_for_url(f"**{EPISODE}3*")
    page.keyboard.press("f")
    page.wait_for_url(f"**outcome=failure&{EPISODE}4*")
    page.keyboard.press("F")
    page.wait_for_url(f"**{EPISODE}3*")
    page.keyboard.press("?")
    expect(page.get_by_role("complementary", name="Keys")).to_be_visible()


def test_keys_go_from_failure_to_failure_in_a_list_and_over_its_pages(site: Site, page: Page) -> None:
    here = page.locator("tr.here th")
    site.to(page, "episodes?run=a")
    for key, task in (("f", 1), ("f", 3), ("F", 1), ("f", 3), ("f", 4), ("f", 9)):
        page.keyboard.press(key)
        expect(here).to_have_text(f"eval/test/0/textcraft_{task}/0")
    page.keyboard.press("f")
    expect(page.locator("#standing")).to_have_text("there is no further failure in this list")
    site.to(page, "episodes?run=two&sort=turns")
    page.keyboard.press("f")
    page.wait_for_url("**#failure")
    expect(here).to_have_text("eval/test/0/textcraft_100/0")
    page.keyboard.press("F")
    page.wait_for_url("**#last-failure")
    expect(page.locator("#standing")).to_have_text("no failure on this page; the same key goes on")


def test_how_the_store_stands_is_said_on_a_page_that_stays_as_it_is(site: Site, page: Page) -> None:
    site.to(page, f"episode?run=a&{EPISODE}3%2F0")
    standing, whole = page.locator("#standing"), site.database.read_bytes()
    site.database.write_bytes(b"no store any more" * 1000)
    try:
        expect(standing).to_contain_text("not newer because", timeout=30_000)
        with page.expect_response("**/state.json"):
            pass
        expect(standing).to_contain_text("got a file of another kind")
    finally:
        site.database.write_bytes(whole)
    expect(standing).to_contain_text("it has changed since this page was made", timeout=30_000)


def test_a_replay_shows_turn_after_turn(site: Site, page: Page) -> None:
    site.to(page, f"episode?run=a&{EPISODE}3%2F0")
    turns = page.locator("article.turn:visible")
    expect(turns).to_have_count(3)
    page.keyboard.press("r")
    expect(turns).to_have_count(1)
    page.keyboard.press("j")
    expect(turns).to_have_count(2)
    assert page.url.endswith("&replay=on#t2")
    page.reload()
    expect(turns).to_have_count(2)
    page.keyboard.press(" ")
    expect(turns).to_have_count(3)
    page.keyboard.press("Escape")
    assert "replay" not in page.url
    page.reload()
    expect(page.locator("article.turn.here h3")).to_have_text("turn 3")


def test_a_live_run_grows_on_the_page(site: Site, page: Page, tmp_path: Path) -> None:
    records = [make_run("live"), make_segment(run="live"), *settled(make_scheduled(0, run="live"), "success")]
    load(write_journal(tmp_path / "live", records), site.database)
    site.to(page, "episodes?run=live")
    expect(page.locator("#counted")).to_have_text("1 to 1 of 1 episodes", timeout=30_000)
    # The first answer may have been that there is no such run yet.
    site.said.clear()
    journal = write_journal(tmp_path / "more", [*records, *settled(make_scheduled(1, run="live"), "failure")]) / "journal" / "0001.jsonl"
    shutil.copyfile(journal, tmp_path / "live" / "journal" / "0001.jsonl")
    load(tmp_path / "live", site.database)
    expect(page.locator("#counted")).to_have_text("1 to 2 of 2 episodes", timeout=30_000)
    expect(page.locator("tr.line")).to_have_count(2)


def test_fresh_figures_leave_what_is_chosen_and_not_sent(site: Site, page: Page, tmp_path: Path) -> None:
    def renewed(run: str) -> None:
        before = page.evaluate("document.body.dataset.stamp")
        load(write_journal(tmp_path / run, [make_run(run), make_segment(run=run)]), site.database)
        page.wait_for_function("before => document.body.dataset.stamp !== before", arg=before, timeout=30_000)

    site.to(page, "")
    page.locator('input[name="a"][value="b"]').check()
    page.locator('input[name="b"][value="a"]').check()
    page.evaluate("document.activeElement.blur()")
    renewed("fresh-1")
    page.get_by_role("button", name="Compare A with B").click()
    page.wait_for_url("**/compare?a=b&b=a")
    site.to(page, "episodes?run=a&stop=done")
    page.get_by_role("combobox", name="outcome", exact=True).select_option("failure")
    page.get_by_role("textbox", name="task", exact=True).fill("textcraft_9")
    page.get_by_role("button", name="Show").focus()
    renewed("fresh-2")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/episodes?run=a&outcome=failure&stop=done&task=textcraft_9")


def test_promise_11_hostile_text_stays_text(site: Site, page: Page) -> None:
    for path in ("", "run?run=h+%3Cb%3E", "episodes?run=h+%3Cb%3E", f"episode?run=h+%3Cb%3E&{EPISODE}0%2F0"):
        site.to(page, path)
        assert page.title().endswith("- agentgym")
        assert page.locator("main script, main img, main b, main i").count() == 0
    shown = page.locator("article.turn .said").first
    expect(shown).to_contain_text('<script>document.title="run"</script>')
    expect(shown).to_contain_text("^[[31mU+202Eexe^@")
    assert HOSTILE.count("script") == 2


def test_ten_million_characters_are_not_sent_at_once(site: Site, page: Page) -> None:
    began = time.monotonic()
    site.to(page, f"episode?run=big&{EPISODE}0%2F0")
    assert time.monotonic() - began < 10
    said = page.locator("#t1 .world .said")
    assert len(said.inner_text()) < 5_000
    page.get_by_role("link", name=re.compile("show more, 9,996,004 characters left")).click()
    expect(page.get_by_role("link", name=re.compile("show more, 9,946,004 characters left"))).to_be_visible()
    assert 54_000 < len(said.inner_text()) < 55_000


def test_a_thousand_turns_come_as_they_are_scrolled_to(site: Site, page: Page) -> None:
    site.to(page, f"episode?run=big&{EPISODE}1%2F0")
    turns = page.locator("article.turn")
    expect(turns).to_have_count(40)
    page.locator(".more-turns").scroll_into_view_if_needed()
    expect(turns).to_have_count(80)


@pytest.mark.parametrize("path", ["", "run?run=a", "run?run=t", "episodes?run=a", f"episode?run=h+%3Cb%3E&{EPISODE}0%2F0", "compare?a=a&b=b"])
def test_a_narrow_window_scrolls_down_alone(site: Site, page: Page, path: str) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    site.to(page, path)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(("scheme", "colour"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 28)")])
def test_a_page_is_light_or_dark_as_the_reader_prefers(chromium: Browser, site: Site, scheme: str, colour: str) -> None:
    page = chromium.new_page(color_scheme="dark" if scheme == "dark" else "light")
    site.to(page, f"episode?run=a&{EPISODE}3%2F0&view=tokens")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colour
    page.close()


def test_screen_readers_are_told_what_is_what(site: Site, page: Page) -> None:
    site.to(page, f"episode?run=a&{EPISODE}3%2F0")
    for role, name in (("navigation", "Way here"), ("navigation", "Episodes around"), ("article", "turn 1"), ("progressbar", "turns")):
        expect(page.get_by_role(role, name=name, exact=True)).to_have_count(1)  # type: ignore[arg-type]
    expect(page.get_by_role("main")).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("button", name="Replay")).to_have_attribute("aria-pressed", "false")
    site.to(page, "episodes?run=a")
    expect(page.get_by_role("search", name="Filter episodes")).to_have_count(1)
    expect(page.get_by_role("table", name="Episodes")).to_have_count(1)
    expect(page.get_by_role("columnheader")).to_have_count(11)
    expect(page.get_by_role("rowheader")).to_have_count(10)


def test_two_runs_are_chosen_and_compared_without_a_script(chromium: Browser, site: Site) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    site.to(page, "")
    page.locator('input[name="a"][value="a"]').check()
    page.locator('input[name="b"][value="b"]').check()
    page.get_by_role("button", name="Compare A with B").click()
    page.get_by_role("link", name=re.compile("^lost")).click()
    expect(page.locator("tr.line")).to_have_count(1)
    page.locator("tr.line").get_by_role("link", name="beside").click()
    expect(page.locator("article.turn").first).to_be_visible()
    context.close()


def test_an_exported_page_reads_from_a_file_alone(site: Site, page: Page, tmp_path: Path) -> None:
    site.to(page, f"episode?run=a&{EPISODE}3%2F0")
    with page.expect_download() as download:
        page.get_by_role("link", name="export HTML").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    site.said.clear()
    page.goto(file.as_uri())
    expect(page.locator("article.turn")).to_have_count(3)
    assert site.said == [file.as_uri()]
    site.said.clear()
