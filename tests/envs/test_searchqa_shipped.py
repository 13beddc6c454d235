"""SearchQA as it ships: its oracle, its options, two servers that agree, the probe, and an indexing process that is killed."""

from __future__ import annotations

import argparse
import csv
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.launch import launch
from agentgym_cli.env.probe import probe
from agentgym_envs.protocol import World
from agentgym_envs.searchqa.folder import fill, open_folder
from agentgym_envs.searchqa.options import add_options, build
from agentgym_envs.searchqa.passages import Passage
from agentgym_envs.serve import serve

pytestmark = pytest.mark.worlds

TASKS = Path(__file__).parents[2] / "recipes/tasks/searchqa_small.csv"
INDEX = [sys.executable, "-m", "agentgym_envs.searchqa.index"]
PRINT_EVERYTHING_SAID = """
import argparse
from hashlib import sha256
from agentgym_envs.searchqa.options import add_options, build
parser = argparse.ArgumentParser()
add_options(parser)
session = build(parser.parse_args([])).open()
said = sha256()
for index in range(120):
    said.update(session.reset(index).observation.encode())
    for action in ("<search>town river founded</search>", *session.oracle()):
        said.update(session.step(action).observation.encode())
print(said.hexdigest())
"""


def world_of(*args: str) -> World:
    """The world that options of the command line describe."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    return build(parser.parse_args(args))


def test_the_oracle_solves_every_question_and_each_of_its_searches_finds_the_entry_it_names() -> None:
    session = world_of().open()
    for index in range(120):
        session.reset(index)
        *searches, answer = session.oracle()
        for search in searches:
            title = search.removeprefix("<search>").removesuffix("</search>")
            assert f"(Title: {title}) " in session.step(search).observation, title
        assert session.step(answer).reward == 1.0


def test_prompts_and_searches_do_not_depend_on_pythons_hash_seed() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", PRINT_EVERYTHING_SAID], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=120, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(said) == 1


def test_a_supplied_corpus_and_questions_make_a_world_whose_calls_run_in_threads_where_it_is_large(tmp_path: Path) -> None:
    questions = tmp_path / "q.jsonl"
    questions.write_text(json.dumps({"question": "Who runs?", "answers": ["Fox"]}), encoding="utf-8")
    for name, count, blocking in (("few", 3, False), ("many", 10_001, True)):
        made = fill(tmp_path / name, (Passage(f"Fox {number}", "It runs.") for number in range(count)), source=name)
        world = world_of("--corpus", str(tmp_path / name), "--questions", str(questions))
        assert (world.task_count, world.blocking) == (1, blocking)
        session = world.open()
        session.reset(0)
        assert session.oracle() == ("<search>Who runs?</search>", "<answer>Fox</answer>")
        assert session.step("<search>fox</search>").observation.split("\n")[1] == "Doc 1 (Title: Fox 0) It runs."
        assert session.look("metadata")["corpus"] == made.digest  # type: ignore[index, call-overload]


def test_searches_from_many_threads_find_what_one_finds(tmp_path: Path) -> None:
    fill(tmp_path, (Passage(f"Entry {number}", f"words of {number % 97} and {number % 89}") for number in range(5_000)), source="x")
    search, _ = open_folder(tmp_path)
    queries = [f"{number % 97} {number % 89}" for number in range(200)]
    alone = [search.find(query, 3) for query in queries]
    together: list[list[Passage]] = [[] for _ in queries]

    def ask(start: int) -> None:
        for place in range(start, len(queries), 8):
            together[place] = search.find(queries[place], 3)

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--corpus", "{folder}"], "--corpus: expected --questions beside it, got none"),
        (
            ["--corpus", "{folder}", "--questions", "{questions}"],
            "expected a finished index, got none; make one with python -m agentgym_envs.searchqa.index",
        ),
        (["--questions", "{questions}"], "{questions}:2: expected a JSON object, got b'not json'"),
        (["--questions", "{folder}/missing"], "No such file"),
    ],
)
def test_data_that_cannot_be_read_is_said_in_two_lines_with_exit_code_2(
    args: list[str], said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "q.jsonl"
    questions.write_text('{"question": "Who?", "answers": ["a1"]}\nnot json', encoding="utf-8")
    if "--corpus" in args:
        questions.write_text('{"question": "Who?", "answers": ["a1"]}\n', encoding="utf-8")
    known = {"folder": str(tmp_path), "questions": str(questions)}
    assert serve(["searchqa", "--port", "0", *(arg.format(**known) for arg in args)]) == 2
    error, hint = capfd.readouterr().err.splitlines()
    assert error.startswith("error: searchqa: ") and said.format(**known) in error
    assert hint == "hint: agentgym serve searchqa --help"


def test_an_index_whose_process_is_killed_goes_on(tmp_path: Path) -> None:
    passages = [Passage(f"Entry {number}", f"some words about {number} and {number % 1_000}") for number in range(250_000)]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"title": it.title, "text": it.text}) + "\n" for it in passages), encoding="utf-8")
    unfinished = tmp_path / "index/unfinished.json"
    with subprocess.Popen([*INDEX, str(corpus), str(tmp_path / "index")], stderr=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        while not (unfinished.exists() and "200000" in unfinished.read_text(encoding="utf-8")) and process.poll() is None:
            threading.Event().wait(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    done = subprocess.run([*INDEX, str(corpus), str(tmp_path / "index")], capture_output=True, text=True, timeout=240, check=True)
    assert json.loads(done.stdout)["passages"] == 250_000
    assert "00,000 of them there before" in done.stderr
    search, _ = open_folder(tmp_path / "index")
    assert [search.find(f"entry {number}", 1)[0].title for number in (0, 99_999, 100_000, 249_999)] == [
        "Entry 0",
        "Entry 99999",
        "Entry 100000",
        "Entry 249999",
    ]


async def test_the_world_passes_every_check_of_the_full_probe() -> None:
    with TASKS.open(encoding="utf-8") as lines:
        tasks = [(int(row["index"]), row["digest"]) for row in csv.DictReader(lines)]
    async with launch("searchqa", [], oracle=True) as urls:
        report = await probe(urls, load_dialect("searchqa"), tasks=tasks, size=len(tasks), level="full")
    others = {check.name: check.result for check in report.servers[0].checks if check.result != "pass"}
    assert others == {"replicas": "n/a", "hostile_text": "n/a"}
