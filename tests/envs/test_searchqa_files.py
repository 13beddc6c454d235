"""Corpora and questions that somebody supplies: what is read, and that whatever is wrong is refused by file and line."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from agentgym_envs.searchqa import passages
from agentgym_envs.searchqa.corpus import read_corpus
from agentgym_envs.searchqa.passages import DataError, Passage
from agentgym_envs.searchqa.questions import Question, read_questions


def written(tmp_path: Path, *lines: object, name: str = "data.jsonl") -> Path:
    """A file with a line for each value: as it stands where it is bytes, else as JSON."""
    path = tmp_path / name
    path.write_bytes(b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines))
    return path


def test_a_corpus_line_has_title_and_text_and_other_fields_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, {"id": 7, "title": "Fox", "text": "It runs."}, b"", {"text": "", "title": "Élan", "url": None})
    assert list(read_corpus(path)) == [Passage("Fox", "It runs."), Passage("Élan", "")]


def test_a_line_of_the_wiki_18_corpus_has_its_title_before_its_text(tmp_path: Path) -> None:
    path = written(tmp_path, {"id": "0", "contents": '"Red fox"\nIt runs.\nFar.'}, {"contents": "Alone"})
    assert list(read_corpus(path)) == [Passage("Red fox", "It runs.\nFar."), Passage("Alone", "")]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{not json", "expected a JSON object, got b'{not json"),
        (b'{"title": "a"', "expected a JSON object, got"),
        (b'{"title": "\\ud800", "text": ""}', "expected a JSON object, got"),
        (b'\xff{"title": "a", "text": ""}', "expected a JSON object, got"),
        (["a", "b"], r"expected a JSON object, got \['a', 'b'\]"),
        ({"text": "a"}, r"expected a field title, got \['text'\]"),
        ({"title": "a"}, r"expected a field text, got \['title'\]"),
        ({"title": "a", "text": 3}, "expected text to be a string, got 3"),
        ({"title": None, "text": "a"}, "expected title to be a string, got None"),
    ],
)
def test_a_corpus_line_that_is_no_passage_is_refused_by_its_number(tmp_path: Path, line: object, why: str) -> None:
    path = written(tmp_path, {"title": "a", "text": "b"}, b"", line)
    with pytest.raises(DataError, match=rf"^{path}:3: {why}"):
        list(read_corpus(path))


def test_what_is_shown_of_a_bad_line_is_short_and_has_no_control_characters(tmp_path: Path) -> None:
    path = written(tmp_path, b"\x1b[2J" + b"x" * 1_000_000)
    with pytest.raises(DataError) as refused:
        list(read_corpus(path))
    assert len(str(refused.value)) < len(str(path)) + 250
    assert "\x1b" not in str(refused.value)


def test_a_line_without_an_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "MOST_LINE_BYTES", 100)
    path = written(tmp_path, {"title": "a", "text": "b"}, b"x" * 10_000)
    with pytest.raises(DataError, match=rf"^{path}:2: expected a line of at most 100 bytes, got a longer one$"):
        list(read_corpus(path))


def parquet(tmp_path: Path, **columns: list[object]) -> Path:
    path = tmp_path / "corpus.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
    return path


def test_a_parquet_file_gives_the_passages_of_its_rows(tmp_path: Path) -> None:
    path = parquet(tmp_path, id=[1, 2, 3], text=["x", "y", "z"], title=["a", "b", "c"])
    assert list(read_corpus(path)) == [Passage("a", "x"), Passage("b", "y"), Passage("c", "z")]
    path = parquet(tmp_path, contents=['"a"\nx', '"b"\ny'])
    assert list(read_corpus(path)) == [Passage("a", "x"), Passage("b", "y")]


def test_a_parquet_file_is_known_by_its_ending_in_any_case(tmp_path: Path) -> None:
    path = parquet(tmp_path, title=["a"], text=["x"]).rename(tmp_path / "OK.PARQUET")
    assert list(read_corpus(path)) == [Passage("a", "x")]


def test_a_parquet_row_that_is_no_passage_is_refused_by_its_number(tmp_path: Path) -> None:
    path = parquet(tmp_path, title=["a", "b", None], text=["x", "y", "z"])
    with pytest.raises(DataError, match=rf"^{path}, row 3: expected title to be a string, got None$"):
        list(read_corpus(path))
    path = parquet(tmp_path, name=["a"])
    with pytest.raises(DataError, match=rf"^{path}, row 1: expected a field title, got \[\]$"):
        list(read_corpus(path))


def test_a_file_that_is_no_parquet_file_or_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path, title=["a"], text=["x"])
    whole = path.read_bytes()
    for content in (b"", b"not parquet at all", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"^{path}, after row 0: expected a Parquet file, got "):
            list(read_corpus(path))


def test_questions_are_numbered_by_their_lines_and_may_say_what_to_search_for(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"id": 0, "question": " Who? ", "answers": ["Ilva", "Torsen"]},
        {"id": "nq_7", "question": "When?", "answers": ["1904"], "searches": ["Ilva", "born"], "category": "two hops"},
        {"question": "Where?", "answers": ["Korveld"]},
    )
    questions = read_questions(path)
    assert questions.all == (
        Question("0", "Who?", ("Ilva", "Torsen")),
        Question("nq_7", "When?", ("1904",), ("Ilva", "born"), "two hops"),
        Question("2", "Where?", ("Korveld",)),
    )
    assert questions.digest == sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "expected a JSON object, got"),
        ({"question": "Who?"}, "expected answers to be a list of strings, got None"),
        ({"question": "Who?", "answers": "Ilva"}, "expected answers to be a list of strings, got 'Ilva'"),
        ({"question": "Who?", "answers": ["a", 3]}, "expected answers to be a list of strings, got"),
        ({"question": "Who?", "answers": []}, "expected answers with a word each that is no article, got"),
        ({"question": "Who?", "answers": ["Ilva", "the"]}, "expected answers with a word each that is no article, got"),
        ({"answers": ["a1"]}, "expected a field question, got"),
        ({"question": " ", "answers": ["a1"]}, "expected a question, got ' '"),
        ({"question": "Who?", "answers": ["a1"], "answer": "b"}, "expected only the fields answers, category, id, question, searches, got 'answer'"),
        ({"question": "Who?", "answers": ["a1"], "searches": [1]}, "expected searches to be a list of strings, got"),
        ({"question": "Who?", "answers": ["a1"], "category": 2}, "expected category to be a string, got 2"),
        (b"", r"expected a JSON object, got b'\\n'"),
        ({"question": "Who?", "answers": ["a1"], "id": 51_713}, "expected id 1, the place of the line counted from 0, got 51713"),
        ({"question": "Who?", "answers": ["a1"], "id": "51713"}, "expected id 1, the place of the line counted from 0, got '51713'"),
        ({"question": "Who?", "answers": ["a1"], "id": "searchqa_0"}, "expected id 1, the place of the line counted from 0, got 'searchqa_0'"),
        ({"question": "Who?", "answers": ["a1"], "id": -1}, "expected id 1, the place of the line counted from 0, got -1"),
        ({"question": "Who?", "answers": ["a1"], "id": True}, "expected id to be a number or a string, got True"),
        ({"question": "Who?", "answers": ["a1"], "id": 1.0}, "expected id to be a number or a string, got 1.0"),
    ],
)
def test_a_line_that_is_no_question_is_refused_by_its_number(tmp_path: Path, line: object, why: str) -> None:
    path = written(tmp_path, {"question": "Who?", "answers": ["Ilva"]}, line)
    with pytest.raises(DataError, match=rf"^{path}:2: {why}"):
        read_questions(path)


def test_a_file_without_a_question_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a question on each line, got none"):
        read_questions(written(tmp_path))


def test_an_id_that_stands_twice_is_refused(tmp_path: Path) -> None:
    lines = [{"id": name, "question": "Who?", "answers": ["Ilva"]} for name in ("nq_7", "nq_8", "nq_7")]
    path = written(tmp_path, *lines)
    with pytest.raises(DataError, match=rf"^{path}:3: expected an id of its own, got 'nq_7', the id of line 1$"):
        read_questions(path)


def test_an_id_that_is_a_lines_own_number_may_be_a_string(tmp_path: Path) -> None:
    lines = [{"id": name, "question": "Who?", "answers": ["Ilva"]} for name in ("0", "searchqa_1", 2)]
    assert [question.id for question in read_questions(written(tmp_path, *lines)).all] == ["0", "searchqa_1", "2"]
