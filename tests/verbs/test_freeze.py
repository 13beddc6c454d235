"""``agentgym freeze``: who the servers are, where the frozen run goes, what has drifted since."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from agentgym_cli.cli.show_freeze import show_check, show_diff, show_frozen
from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.verbs.freeze import check_frozen, compare_frozen, freeze_recipe, only_one
from agentgym_cli.verbs.home import keep_observed
from tests.recipe.builders import RECIPE
from tests.verbs.frozen_runs import change, started, toy

NOBODY = "http://127.0.0.1:9"


class _TextCraft(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps("This is environment TextCraft.").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _TextCraft) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_freezing_asks_every_server_who_it_is(tmp_path: Path, server: str) -> None:
    frozen = freeze_recipe(toy(tmp_path), [f"env.urls=[{server},{NOBODY}]"], None)
    assert frozen.observed[server] == "HTTP 200: This is environment TextCraft."
    assert frozen.observed[NOBODY].startswith(f"not reached: GET {NOBODY}/: expected a server")
    assert frozen.digest == freeze_recipe(toy(tmp_path), [], None).digest


def test_a_world_that_is_served_for_the_run_is_named(tmp_path: Path) -> None:
    frozen = freeze_recipe(toy(tmp_path), ["env.world_args=[--book,laptop]"], None)
    assert frozen.observed == {"env.world": "served by this program: textcraft --book laptop"}


def test_without_its_token_a_server_is_not_asked(tmp_path: Path) -> None:
    frozen = freeze_recipe(toy(tmp_path), [f"env.urls=[{NOBODY}]", "env.token_variable=AGENTGYM_TEST_NOT_SET"], None)
    assert frozen.observed[NOBODY].startswith("not asked: env.token_variable")


def test_a_frozen_run_goes_where_it_is_wanted(tmp_path: Path) -> None:
    frozen = freeze_recipe(toy(tmp_path), [], tmp_path / "f.json")
    assert read_frozen(tmp_path / "f.json") == frozen


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    recipe = toy(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    before = sorted(tmp_path.iterdir())
    for place in ("folder", "file/f.json", "nowhere/f.json", "x" * 300):
        with pytest.raises(StoreError, match="expected to write the frozen run, got: ") as caught:
            freeze_recipe(recipe, [], tmp_path / place)
        assert caught.value.hint == "choose another place with -o FILE"
    assert sorted(tmp_path.iterdir()) == before


def test_a_dialect_that_cannot_be_meant_is_refused_at_freeze(tmp_path: Path) -> None:
    recipe = toy(tmp_path, RECIPE.replace("dialect: textcraft", "dialect: d.yaml"))
    (tmp_path / "d.yaml").write_text("name: textcraft\nprompt: told.txt\nprobe_action: [look]\n")
    with pytest.raises(RecipeError, match=r"d\.yaml:3: probe_action"):
        freeze_recipe(recipe, [], None)


@pytest.mark.parametrize(
    ("words", "got"),
    [
        ((None, [], None, None, None), "expected a recipe, got none"),
        (("a.json", [], None, None, None), "freeze: expected a recipe (YAML), got 'a.json', the name of a frozen run"),
        (("x.yaml", [], None, Path("a"), None), "freeze --check: expected nothing else to do, got 'x.yaml' too"),
        ((None, ["seed=1"], None, None, (Path("a"), Path("b"))), "freeze --diff: expected nothing else to do, got 'seed=1' too"),
        ((None, [], Path("o"), Path("a"), None), "freeze --check: expected nothing else to do, got -o too"),
        ((None, [], None, Path("a"), (Path("a"), Path("b"))), "freeze --check: expected nothing else to do, got --diff too"),
    ],
)
def test_promise_08_words_that_would_be_ignored_are_refused(words: tuple[str | None, list[str], Path | None, Path | None, None], got: str) -> None:
    with pytest.raises(RecipeError) as caught:
        only_one(*words)
        freeze_recipe(*words[:3])
    assert got in str(caught.value)


def test_a_folder_without_a_frozen_run_is_refused(tmp_path: Path) -> None:
    for ask in (check_frozen, lambda path: compare_frozen(path, path)):
        with pytest.raises(RecipeError, match=r"expected a frozen run, or the folder of a run with frozen\.json in it, got a folder without"):
            ask(tmp_path)


@pytest.mark.slow
def test_a_check_says_item_by_item_what_is_the_same_and_raises_for_what_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = started(toy(tmp_path))
    show_check(check_frozen(run.folder), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines if " same" in line} == set(run.frozen.items)
    change(tmp_path)
    with pytest.raises(RecipeError, match=r": expected the files that it was frozen with, got drift in prompt"):
        show_check(check_frozen(run.folder / "frozen.json"), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    (drifted,) = [line.split() for line in lines if "told.txt" in line]
    assert drifted[:3] == ["prompt:", "told.txt", run.frozen.parts["prompt"]["told.txt"][:12]]
    assert max(map(len, lines)) <= 80
    with pytest.raises(RecipeError):
        show_check(check_frozen(run.folder), as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert (document["drifted"], document["digest"]) == (["prompt"], run.frozen.digest)
    assert document["items"]["prompt"][0]["key"] == "prompt: told.txt"
    assert document["items"]["model"] == []


@pytest.mark.slow
def test_a_comparison_tells_what_can_change_results_from_what_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = toy(tmp_path)
    one, other = started(recipe), started(recipe, "store.database=other.duckdb", "train.steps=21")
    show_diff(compare_frozen(one.folder, other.folder / "frozen.json"), as_json=False)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "can change results:",
        "key a b",
        "train.steps 20 21",
        "cannot change results:",
        "key a b",
        'store.database "results.duckdb" "other.duckdb"',
    ]
    keep_observed(other, {"env.world": "served by this program: textcraft"})
    show_diff(compare_frozen(one.folder, other.folder), as_json=False)
    assert capsys.readouterr().out.splitlines()[-1].split()[:3] == ["observed:", "env.world", "-"]
    show_diff(compare_frozen(one.folder, one.folder), as_json=False)
    assert capsys.readouterr().out == "no difference\n"
    show_diff(compare_frozen(one.folder, other.folder), as_json=True)
    assert [(each["key"], each["affects_results"]) for each in json.loads(capsys.readouterr().out)] == [
        ("store.database", False),
        ("train.steps", True),
        ("observed: env.world", None),
    ]


def test_foreign_words_are_harmless_in_every_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = toy(tmp_path, RECIPE + 'description: "[red]x\\e[2J"\n')
    one, other = freeze_recipe(recipe, [], tmp_path / "a.json"), freeze_recipe(recipe, ["description=y"], tmp_path / "b.json")
    show_diff(compare_frozen(tmp_path / "a.json", tmp_path / "b.json"), as_json=False)
    assert one.digest == other.digest
    out = capsys.readouterr().out
    assert "[red]x" in out
    assert "\x1b" not in out


def test_freezing_prints_items_warnings_and_the_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = "about: {reported_overlaps: [{split: test, tasks: 61, source: a user's count}]}\n"
    frozen = freeze_recipe(toy(tmp_path, RECIPE + note), [], None)
    show_frozen(frozen, as_json=False)
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("warning: ")] == [f"warning: {frozen.warnings[0]}"]
    assert out.splitlines()[-1] == f"digest {frozen.digest}"
    assert "observed at env.world: served by this program: textcraft" in out
    show_frozen(frozen, as_json=True)
    assert capsys.readouterr().out == frozen.to_json() + "\n"
