"""The index: BM25 by an independent formula, ties, hostile queries, and folders that are filled, interrupted, filled again and refused."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from agentgym_envs.protocol import WorldError
from agentgym_envs.searchqa import folder as folders
from agentgym_envs.searchqa.folder import fill, open_folder
from agentgym_envs.searchqa.index import main
from agentgym_envs.searchqa.passages import DataError, Passage
from agentgym_envs.searchqa.record import sizes
from agentgym_envs.searchqa.search import MOST_WORDS, in_memory
from agentgym_envs.searchqa.world import SearchQA
from tests.envs.questions import QUESTIONS

pytestmark = pytest.mark.worlds

ANIMALS = (
    Passage("Fox", "red fox runs far"),
    Passage("Hare", "hare runs from fox and fox"),
    Passage("Sea", "blue sea"),
    Passage("Den", "red den under red stone near sea"),
    Passage("Owl", "owl"),
)


def bm25(query: str, passages: tuple[Passage, ...]) -> list[tuple[float, str]]:
    """Scores by Robertson and Zaragoza's formula with k1 1.2, b 0.75 and ln(1 + (N - n + 0.5) / (n + 0.5)), best first."""
    bags = [Counter(re.findall(r"\w+", f"{passage.title} {passage.text}".lower())) for passage in passages]
    mean = sum(bag.total() for bag in bags) / len(bags)
    scores = []
    for passage, bag in zip(passages, bags, strict=True):
        score = 0.0
        for word in set(query.lower().split()):
            holders = sum(word in other for other in bags)
            rarity = math.log(1 + (len(bags) - holders + 0.5) / (holders + 0.5))
            score += rarity * bag[word] * 2.2 / (bag[word] + 1.2 * (0.25 + 0.75 * bag.total() / mean))
        scores.append((score, passage.title))
    return sorted(((score, title) for score, title in scores if score), reverse=True)


def titles(found: list[Passage]) -> list[str]:
    return [passage.title for passage in found]


@pytest.mark.parametrize("query", ["fox", "red", "red fox", "sea stone", "runs far red sea", "owl fox blue"])
def test_passages_are_ranked_by_bm25(query: str) -> None:
    assert titles(in_memory(ANIMALS).find(query, 5)) == [title for _, title in bm25(query, ANIMALS)]


def test_a_ranking_worked_out_by_hand() -> None:
    # Of 3 passages, "sea" stands in two, with 2 and 3 words; the shorter one comes first. The third has no word of the query.
    passages = [Passage("A", "sea blue"), Passage("B", "sea"), Passage("C", "sand dune")]
    assert titles(in_memory(passages).find("the sea", 3)) == ["B", "A"]


def test_words_match_in_any_case_number_and_accent() -> None:
    search = in_memory([Passage("Café", "Bridges of Ålund, founded 1904"), Passage("X", "y")])
    assert [titles(search.find(query, 3)) for query in ("CAFE", "bridge", "alund", "Founding", "1904?", "the café's")] == [["Café"]] * 6


def test_no_more_passages_are_found_than_were_asked_for_and_none_for_words_that_are_not_there() -> None:
    search = in_memory(ANIMALS)
    assert len(search.find("fox hare sea den owl", 3)) == 3
    assert search.find("unobtainium", 3) == []


@pytest.mark.parametrize("twins", [2, 30, 2_000])
def test_of_equal_passages_the_first_of_the_corpus_are_found(twins: int) -> None:
    passages = [Passage(str(number), "same words here") for number in range(twins)]
    assert titles(in_memory(passages).find("same", 3)) == ["0", "1", "2"][: min(3, twins)]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "\x00\x01\x1b[2J\u202e",
        "\ud800",
        '"',
        "OR NOT",
        "title:* words:[a TO z]",
        "((((((((((",
        '"unclosed -~^*?:\\',
        "x" * 1_000_000,
        "'; drop table d; --",
        "北京" * 1_000,
    ],
)
def test_a_query_has_no_syntax_and_finds_nothing_it_has_no_word_of(query: str) -> None:
    assert in_memory(ANIMALS).find(query, 3) == []


def test_syntax_around_a_word_changes_nothing() -> None:
    search = in_memory(ANIMALS)
    for query in ('"fox"', "fox*", "-fox", "words:fox^9", "(fox) OR NOT", "\x00fox\x1b", "fox\ud800"):
        assert titles(search.find(query, 3)) == ["Fox", "Hare"]


def test_only_the_first_words_of_a_long_query_count() -> None:
    search = in_memory(ANIMALS)
    others = [f"w{number}" for number in range(MOST_WORDS)]
    assert titles(search.find(" ".join([*others[1:], "owl"]), 3)) == ["Owl"]
    assert search.find(" ".join([*others, "owl"]), 3) == []


def test_a_folder_answers_as_memory_does_and_says_what_it_was_made_from(tmp_path: Path) -> None:
    made = fill(tmp_path / "index", ANIMALS, source="animals.jsonl")
    search, read = open_folder(tmp_path / "index")
    assert read == made
    assert (made.passages, made.source, len(search)) == (5, "animals.jsonl", 5)
    assert search.find("red fox", 5) == in_memory(ANIMALS).find("red fox", 5)


def test_filling_a_folder_again_with_the_same_corpus_changes_nothing_and_with_another_is_refused(tmp_path: Path) -> None:
    made = fill(tmp_path / "index", ANIMALS, source="animals.jsonl")
    before = {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))}
    assert fill(tmp_path / "index", ANIMALS, source="renamed.jsonl") == made
    for others in (ANIMALS[:4], ANIMALS[::-1], [*ANIMALS, Passage("a", "b")]):
        with pytest.raises(DataError, match=r"expected the 5 passages of 'animals.jsonl' that are indexed there, got other ones"):
            fill(tmp_path / "index", others, source="animals.jsonl")
    assert {path: path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("*"))} == before


class Killed(BaseException):
    """The process ends here."""


def ends_after(count: int, passages: list[Passage]) -> Iterator[Passage]:
    yield from passages[:count]
    raise Killed


MANY = [Passage(f"Entry {number}", f"common words and n{number} of {number % 7}") for number in range(100)]


@pytest.mark.parametrize("ends", [(0,), (5,), (10,), (55,), (12, 31, 31, 99), (100,)])
def test_an_interrupted_index_goes_on_and_ends_as_one_that_was_not_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: tuple[int, ...]
) -> None:
    monkeypatch.setattr(folders, "_COMMIT_PASSAGES", 10)
    for end in ends:
        interrupted(tmp_path / "index", end)
        with pytest.raises(DataError, match="expected a finished index, got none"):
            open_folder(tmp_path / "index")
    known: list[int] = []
    made = fill(tmp_path / "index", MANY, source="many", progress=lambda number, was_there: known.append(number) if was_there else None)
    assert known == list(range(1, ends[-1] // 10 * 10 + 1))
    assert made == fill(tmp_path / "whole", MANY, source="many")
    searches = [open_folder(tmp_path / name)[0] for name in ("index", "whole")]
    for query in ("common", "n42 of 3", "words 5 n7 n99"):
        assert searches[0].find(query, 10) == searches[1].find(query, 10) == in_memory(MANY).find(query, 10)


def interrupted(folder: Path, end: int) -> None:
    try:
        fill(folder, ends_after(end, MANY), source="many")
    except Killed:
        return
    raise AssertionError("it was not interrupted")


def test_a_commit_that_was_noted_and_did_not_happen_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_COMMIT_PASSAGES", 10)
    interrupted(tmp_path / "index", 10)
    shutil.copytree(tmp_path / "index/index", tmp_path / "earlier")
    interrupted(tmp_path / "index", 20)
    noted = (tmp_path / "index/unfinished.json").read_text(encoding="utf-8")
    assert list(json.loads(noted)) == ["10", "20"]
    shutil.rmtree(tmp_path / "index/index")
    shutil.copytree(tmp_path / "earlier", tmp_path / "index/index")
    interrupted(tmp_path / "index", 15)
    assert fill(tmp_path / "index", MANY, source="many").passages == 100


def test_an_interrupted_index_does_not_go_on_with_another_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_COMMIT_PASSAGES", 10)
    interrupted(tmp_path / "index", 35)
    for others in ([*MANY[:29], Passage("other", "text"), *MANY[30:]], MANY[:20]):
        with pytest.raises(DataError, match="expected the corpus that was being indexed there, got another"):
            fill(tmp_path / "index", others, source="many")


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(DataError, match="expected a new or empty folder"):
        fill(tmp_path, ANIMALS, source="animals")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("corpus.json", b"{", "expected JSON as it was written here"),
        ("corpus.json", b"[]", "expected a JSON object"),
        ("corpus.json", b'{"passages": 5}', "expected what an index was made from"),
        ("corpus.json", b'{"passages": "x", "digest": "", "source": "", "engine": "", "format": 1}', "expected what an index was made from"),
        ("corpus.json", b'{"passages": null, "digest": "", "source": "", "engine": "", "format": 2}', "expected what an index was made from"),
        (
            "corpus.json",
            b'{"passages": 5, "digest": "", "source": "", "engine": "", "format": 2, "files": {"a": "b"}}',
            "what an index was made from",
        ),
        ("corpus.json", b"[" * 100_000, "expected JSON as it was written here"),
        ("index/meta.json", b"{", "expected the files of its index as they were written, got a damaged meta.json"),
        ("index/more.idx", b"", "got a damaged more.idx"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    fill(tmp_path / "index", ANIMALS, source="animals")
    (tmp_path / "index" / name).write_bytes(content)
    with pytest.raises(DataError, match=why):
        open_folder(tmp_path / "index")


ENDINGS = ("fast", "fieldnorm", "idx", "pos", "store", "term")


def segment(folder: Path, ending: str) -> Path:
    """The one file of the index with an ending."""
    [path] = (folder / "index").glob(f"*.{ending}")
    return path


def recorded_again(folder: Path) -> None:
    """Let the folder say of the index what is there now."""
    said = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
    (folder / "corpus.json").write_text(json.dumps({**said, "files": sizes(folder / "index")}), encoding="utf-8")


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_index_of_which_a_file_is_cut_short_or_gone_is_refused_before_the_engine_reads_it(
    tmp_path: Path, ending: str, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, ANIMALS, source="animals")
    file = segment(tmp_path, ending)
    whole = file.read_bytes()
    for left in (whole[:5], whole[:-1], b"", None):
        if left is None:
            file.unlink()
        else:
            file.write_bytes(left)
        with pytest.raises(DataError, match=f"got a damaged {file.name}; remove it and make it again"):
            open_folder(tmp_path)
    shutil.rmtree(tmp_path / "index")
    with pytest.raises(DataError, match="got a damaged "):
        open_folder(tmp_path)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_panic_of_the_engine_is_a_damaged_index(tmp_path: Path, ending: str) -> None:
    fill(tmp_path, ANIMALS, source="animals")
    segment(tmp_path, ending).write_bytes(b"five5")
    recorded_again(tmp_path)
    with pytest.raises(DataError, match=r"expected an index as it was written, got a damaged one .*; remove it and make it again"):
        open_folder(tmp_path)


def test_what_only_a_search_reads_is_looked_at_before_it_is_needed(tmp_path: Path) -> None:
    fill(tmp_path, ANIMALS, source="animals")
    segment(tmp_path, "pos").unlink()
    recorded_again(tmp_path)
    with pytest.raises(DataError, match="expected an index as it was written, got a damaged one"):
        open_folder(tmp_path)


def test_damage_in_an_unfinished_index_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_COMMIT_PASSAGES", 10)
    interrupted(tmp_path, 35)
    (tmp_path / "index/meta.json").write_bytes(b"{")
    with pytest.raises(DataError, match="expected an index as it was written, got a damaged one"):
        fill(tmp_path, MANY, source="many")


def test_damage_that_shows_during_a_search_is_a_refusal_and_no_reply(tmp_path: Path) -> None:
    fill(tmp_path, ANIMALS, source="animals")
    search, made = open_folder(tmp_path)
    # The index is mapped into memory, where the bytes change with the file: the passages are no longer what their compression says.
    store = segment(tmp_path, "store")
    with store.open("r+b") as file:
        file.write(b"\xff" * (store.stat().st_size // 2))
    world = SearchQA(questions=QUESTIONS, search=search, corpus=made.digest)
    session = world.open()
    session.reset(0)
    with pytest.raises(WorldError, match=r"^The search failed: the index is damaged\.$"):
        session.step("<search>red fox</search>")


@pytest.mark.parametrize("left", [(), ("lock",), ("lock", "unfinished.part"), ("index/",), ("lock", "index/")])
def test_what_a_run_that_was_killed_at_once_has_left_is_gone_on_with(tmp_path: Path, left: tuple[str, ...]) -> None:
    for name in left:
        if name.endswith("/"):
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_text("")
    assert fill(tmp_path, ANIMALS, source="animals").passages == 5


def test_an_index_without_a_note_of_how_far_it_goes_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index/meta.json").write_text("mine")
    with pytest.raises(DataError, match="expected a new or empty folder"):
        fill(tmp_path, ANIMALS, source="animals")


def test_the_second_of_two_who_write_at_once_is_told_so(tmp_path: Path) -> None:
    def second_meanwhile(passages: list[Passage]) -> Iterator[Passage]:
        for number, passage in enumerate(passages):
            if number in (1, 50):
                with pytest.raises(DataError, match="expected a folder that nobody else writes, got one that another process is indexing into"):
                    fill(tmp_path, MANY, source="many")
            yield passage

    made = fill(tmp_path, second_meanwhile(MANY), source="many")
    assert fill(tmp_path, MANY, source="many") == made


def test_an_empty_corpus_is_refused_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.jsonl").write_text("\n\n", encoding="utf-8")
    pyarrow.parquet.write_table(pyarrow.table({"title": pyarrow.array([], "string"), "text": pyarrow.array([], "string")}), tmp_path / "c.parquet")
    for name in ("c.jsonl", "c.parquet"):
        assert main([str(tmp_path / name), str(tmp_path / "index")]) == 2
        assert capsys.readouterr().err.startswith(f"error: {name}: expected a passage at least, got none\nhint: ")
    assert not (tmp_path / "index").exists()


def test_a_corpus_that_is_not_there_leaves_no_folder(tmp_path: Path) -> None:
    assert main([str(tmp_path / "missing.jsonl"), str(tmp_path / "index")]) == 2
    assert list(tmp_path.iterdir()) == []


def test_without_the_engine_the_command_says_so_with_exit_code_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    assert main([str(tmp_path / "c.jsonl"), str(tmp_path / "index")]) == 4
    assert capsys.readouterr().err == (
        'error: the package tantivy is not installed; install it with: pip install "agentgym-cli[envs-searchqa]"\nhint: agentgym serve --list\n'
    )


def test_with_a_broken_engine_the_command_says_so_with_exit_code_4(tmp_path: Path) -> None:
    (tmp_path / "tantivy.py").write_text("raise ImportError('half of it')\n", encoding="utf-8")
    command = [sys.executable, "-m", "agentgym_envs.searchqa.index", str(tmp_path / "c.jsonl"), str(tmp_path / "index")]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        4,
        "error: the package tantivy is installed and cannot be imported: half of it\nhint: install it again\n",
    )


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [("passages", 6, "of 6 passages, got one of 5"), ("engine", "x 1", "make it again"), ("format", 1, "one of format 1 in")],
)
def test_an_index_that_is_not_what_its_folder_says_is_refused(tmp_path: Path, field: str, value: object, why: str) -> None:
    fill(tmp_path, ANIMALS, source="animals")
    said = json.loads((tmp_path / "corpus.json").read_text(encoding="utf-8"))
    (tmp_path / "corpus.json").write_text(json.dumps({**said, field: value}), encoding="utf-8")
    with pytest.raises(DataError, match=why):
        open_folder(tmp_path)


def test_json_lines_and_parquet_of_one_corpus_give_one_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, table = tmp_path / "c.jsonl", tmp_path / "c.parquet"
    lines.write_text("".join(json.dumps({"title": it.title, "text": it.text}) + "\n" for it in ANIMALS), encoding="utf-8")
    pyarrow.parquet.write_table(pyarrow.table({"title": [it.title for it in ANIMALS], "text": [it.text for it in ANIMALS]}), table)
    said = []
    for path in (lines, table):
        assert main([str(path), str(tmp_path / f"{path.name}.index")]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    assert said[0]["passages"] == 5


def test_the_command_refuses_a_bad_line_by_file_and_line_with_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"title": "a", "text": "b"}\nnot json\n', encoding="utf-8")
    assert main([str(corpus), str(tmp_path / "index")]) == 2
    assert capsys.readouterr().err.startswith(f"error: {corpus}:2: expected a JSON object, got b'not json")
    assert main([str(tmp_path / "missing.jsonl"), str(tmp_path / "index")]) == 2


def test_a_mended_line_lets_the_same_command_go_on(tmp_path: Path) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"title": "a", "text": "b"}\nnot json\n', encoding="utf-8")
    assert main([str(corpus), str(tmp_path / "index")]) == 2
    corpus.write_text('{"title": "a", "text": "b"}\n{"title": "c", "text": "d"}\n', encoding="utf-8")
    assert main([str(corpus), str(tmp_path / "index")]) == 0
    assert len(open_folder(tmp_path / "index")[0]) == 2
