"""JSON Pointers read exactly what RFC 6901 says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_cli.env.pointer import PATTERN, PointerMiss, resolve

DOCUMENT = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/e^f", 3),
        ("/g|h", 4),
        ("/i\\j", 5),
        ('/k"l', 6),
        ("/ ", 7),
        ("/m~0n", 8),
    ],
)
def test_the_examples_of_rfc_6901(pointer, value):
    assert resolve(DOCUMENT, pointer) == value


@pytest.mark.parametrize("pointer", ["/nope", "/foo/2", "/foo/-1", "/foo/-", "/foo/01", "/foo/x", "/foo/²", "/foo/0/0", "//x"])
def test_what_is_not_there_is_a_miss(pointer):
    with pytest.raises(PointerMiss):
        resolve(DOCUMENT, pointer)


@pytest.mark.parametrize("document", [None, 5, "text", [], {}])
def test_a_bare_body_has_only_itself(document):
    assert resolve(document, "") == document
    with pytest.raises(PointerMiss):
        resolve(document, "/0")


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), st.integers(), max_size=5))
def test_every_key_can_be_named(document):
    for key, value in document.items():
        pointer = "/" + key.replace("~", "~0").replace("/", "~1")
        assert resolve(document, pointer) == value
        assert re.fullmatch(PATTERN, pointer)


@pytest.mark.parametrize("text", ["foo", "/a~2", "/a~", "#/a"])
def test_what_is_no_pointer_is_told_apart(text):
    assert re.fullmatch(PATTERN, text) is None
