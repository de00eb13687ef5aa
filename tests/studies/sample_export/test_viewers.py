"""Tokens that break rows, or are taken for something else, written so that they do not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.studies.sample_export.reading import js_number

from theodolite.studies.sample_export.viewers import escape_cell

ANY = st.text(st.characters(exclude_categories=()))


@given(ANY, ANY)
def test_cells_are_single_lines_and_unique(text: str, other: str) -> None:
    line = escape_cell(text)
    assert line.strip()
    assert not set(line) & set("\t\n\r\v\f\0\x85\u2028\u2029\u202e\u2066\ufeff")
    line.encode("utf-8")  # no lone surrogate is left
    assert js_number(line) is None
    assert (escape_cell(other) == line) == (other == text)
    if line.startswith('"'):
        assert json.loads(line) == text
    else:
        assert line == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("the", "the"),
        (" the", " the"),
        ("\\n", "\\n"),
        ("\n", '"\\n"'),
        ("a\tb", '"a\\tb"'),
        ("", '""'),
        ("  ", '"  "'),
        ('"', '"\\""'),
        ("\ud83d", '"\\ud83d"'),
        ("\u202eabc", '"\\u202eabc"'),
        ("007", '"007"'),
        ("1e5", '"1e5"'),
        ("0x1F", '"0x1F"'),
        ("-Infinity", '"-Infinity"'),
        ("3rd", "3rd"),
        ("👩‍🚀", "👩‍🚀"),
    ],
)
def test_examples(text: str, line: str) -> None:
    assert escape_cell(text) == line
