"""The strict YAML reader: what is a number, what is refused, and on which line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.yaml import MAX_BYTES, YamlValue, parse_value, parse_yaml, read_yaml

WHERE = Path("r.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-7", 5e-7),
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        ("-.5", -0.5),
        ("3.", 3.0),
        ("0.2", 0.2),
        ("7", 7),
        ("-7", -7),
        ("0", 0),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("'5'", "5"),
        ('"true"', "true"),
    ],
)
def test_values_have_the_types_people_mean(text: str, value: YamlValue) -> None:
    got = parse_value(text, where="x")
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    "text", ["yes", "no", "on", "off", "y", "n", "none", "None", "2024-01-01", "1:30", "007", "0x10", "1_000", "1e", ".", "e5", "1.2.3", "nan"]
)
def test_words_of_yaml_1_1_are_strings(text: str) -> None:
    assert parse_value(text, where="x") == text


@pytest.mark.parametrize("text", [".nan", ".NaN", ".inf", "-.inf", "+.Inf", "1e999", "-1e999"])
def test_numbers_that_are_not_finite_are_refused(text: str) -> None:
    with pytest.raises(RecipeError, match=r"r\.yaml:2: expected a finite number, got"):
        parse_yaml(f"a: 1\nb: {text}\n", WHERE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", r"r.yaml:2: expected each key once, got 'a' again \(first on line 1\)"),
        ("a: {b: 1,\n b: 2}", r"r.yaml:2: expected each key once, got 'b' again \(first on line 1\)"),
        ("a: &x [1]\nb: *x", "r.yaml:1: expected plain values, got the anchor &x"),
        ("\nb: *x", "r.yaml:2: expected plain values, got the alias [*]x"),
        ("a: !!python/object/apply:os.system [ls]", "r.yaml:1: expected plain values, got the tag 'tag:yaml.org,2002:python/object/apply:os.system'"),
        ("a: !!str 5", "r.yaml:1: expected plain values, got the tag"),
        ("a: ! 5", "r.yaml:1: expected plain values, got the tag '!'"),
        ("<<: {a: 1}", "r.yaml:1: expected plain keys, got the merge key <<"),
        ("1: a", "r.yaml:1: expected a name as key, got 1"),
        ("true: a", "r.yaml:1: expected a name as key, got true"),
        ("? [a, b]\n: c", r"r.yaml:1: expected a name as key, got \['a', 'b'\]"),
        ("a: 1\n---\nb: 2", "r.yaml:2: expected one document, got a second one"),
        ("%YAML 1.1\n---\na: 1", "r.yaml:1: expected plain values, got a directive"),
        ("", "r.yaml:1: expected a mapping of names to values, got nothing"),
        ("# only words\n", "r.yaml:1: expected a mapping of names to values, got nothing"),
        ("\n- a\n", r"r.yaml:2: expected a mapping of names to values, got \['a'\]"),
        ("a: [1, 2", "r.yaml:1: expected YAML, got: "),
        ("a: 1\nb: 'open", "r.yaml:2: expected YAML, got: "),
        ("a: 1\n\tb: 2", "r.yaml:2: expected YAML, got: "),
        ("a: 1\nb: c\x07d", r"r.yaml:2: expected printable text, got character U\+0007"),
        ('a: "\\ud800"', "r.yaml:1: expected text, got half of a surrogate pair"),
        ("a: 99999999999999999999999", "r.yaml:1: expected an integer of 64 bits"),
        ("a: 9223372036854775808", "r.yaml:1: expected an integer of 64 bits"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_yaml(text, WHERE)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("opening", ["{", "[", "? ", "{a: [", "- "])
def test_nesting_that_the_parser_itself_cannot_follow_is_refused(opening: str) -> None:
    with pytest.raises(RecipeError, match=r"gate\.yaml:1: expected"):
        parse_yaml(opening * 3000, Path("gate.yaml"))


def test_deep_nesting_is_refused_without_recursion_errors() -> None:
    with pytest.raises(RecipeError, match=r"r\.yaml:1: expected at most 32 levels, got more"):
        parse_yaml("a: " + "[" * 200_000, WHERE)


def test_every_key_and_element_keeps_its_line() -> None:
    file = parse_yaml("# head\na: 1\nb:\n  c: [x,\n    y]\n  d:\n    - {e: 2}\n    - f\n", WHERE)
    assert file.data == {"a": 1, "b": {"c": ["x", "y"], "d": [{"e": 2}, "f"]}}
    assert file.lines == {
        (): 2,
        ("a",): 2,
        ("b",): 3,
        ("b", "c"): 4,
        ("b", "c", 0): 4,
        ("b", "c", 1): 5,
        ("b", "d"): 6,
        ("b", "d", 0): 7,
        ("b", "d", 0, "e"): 7,
        ("b", "d", 1): 8,
    }


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    text = "a: 1\nb:\n  - x\n  - |\n    two\n    lines\n"
    unix, windows = tmp_path / "unix.yaml", tmp_path / "windows.yaml"
    unix.write_bytes(text.encode())
    windows.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert read_yaml(windows).data == read_yaml(unix).data == {"a": 1, "b": ["x", "two\nlines\n"]}
    assert read_yaml(windows).lines == read_yaml(unix).lines


def test_other_encodings_are_refused_with_the_position(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("a: 1\nb: né\n".encode("latin-1"))
    with pytest.raises(RecipeError, match=r"latin\.yaml:2: expected UTF-8, got byte 0xe9 at position 9"):
        read_yaml(path)
    path.write_bytes("a: 1".encode("utf-16"))
    with pytest.raises(RecipeError, match=r":1: expected UTF-8, got byte 0xff at position 0"):
        read_yaml(path)


def test_five_megabytes_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"a: 1\n" * 1_000_000)
    with pytest.raises(RecipeError, match=rf"big\.yaml: expected at most {MAX_BYTES} bytes, got more"):
        read_yaml(path)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"none\.yaml: expected a readable file, got: No such file"):
        read_yaml(tmp_path / "none.yaml")
    with pytest.raises(RecipeError, match="expected a file, got a folder"):
        read_yaml(tmp_path)


def test_a_value_is_never_cut_at_a_comment() -> None:
    with pytest.raises(RecipeError, match="x: expected one value, got '#3' after it"):
        parse_value("run #3", where="x")
    assert parse_value("'run #3'", where="x") == "run #3"
    assert parse_value("{a: [1, 2e-3]}", where="x") == {"a": [1, 0.002]}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_survives_its_repr(number: float) -> None:
    got = parse_value(repr(number), where="x")
    assert isinstance(got, float)
    assert repr(got) == repr(number)


@pytest.mark.slow
@given(st.text(max_size=200))
def test_any_text_gives_a_value_or_a_recipe_error(text: str) -> None:
    try:
        parse_yaml(text, WHERE)
    except RecipeError as err:
        assert str(err).startswith("r.yaml:")


def test_every_value_that_is_refused_is_named_at_once() -> None:
    text = "a: .nan\nb: !!str x\nc: [1, 99999999999999999999]\na: 2\n<<: {}\n3: 4\n"
    with pytest.raises(RecipeError) as caught:
        parse_yaml(text, Path("r.yaml"))
    assert [line.strip().partition(": expected")[0] for line in str(caught.value).splitlines()] == [
        "6 things in r.yaml cannot be read",
        *(f"r.yaml:{line}" for line in range(1, 7)),
    ]


def test_a_pipe_is_no_recipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(RecipeError, match="expected a file, got something else"):
        read_yaml(tmp_path / "pipe.yaml")
