"""Messages of conversations: what their content may be."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from theodolite.corpora.chat import write_conversation
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.text_corpus import open_corpus
from theodolite.errors import InputError


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"content": "Hi"}, "Hi"),
        ({"content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]}, "one two"),
        ({"content": None, "tool_calls": [{"name": "search"}]}, None),
    ],
)
def test_the_content_is_one_text(message: dict[str, Any], content: str | None) -> None:
    (written,) = json.loads(write_conversation([{"role": "user"} | message], "a.jsonl:1") or "")
    assert written.get("content") == content


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"content": None},
        {"content": None, "tool_calls": []},
        {"content": 5},
        {"content": [{"type": "image", "url": "a.png"}]},
    ],
    ids=str,
)
def test_other_content_is_rejected(message: dict[str, Any]) -> None:
    """A template would write it as Python does, such as None."""
    with pytest.raises(InputError, match=r"a\.jsonl:1, message 2: .* a content of text, .* \(got \{'role'"):
        write_conversation([{"role": "user", "content": "Hi"}, {"role": "user"} | message], "a.jsonl:1")


def test_conversations_in_rows_in_memory() -> None:
    talks = [[{"role": "user", "content": "Hi"}], [{"role": "user", "content": "Bye"}]]
    chat = CorpusOptions(chat=True)
    expected = list(open_corpus(talks, chat).documents())
    rows = [{"messages": talk, "text": "other"} for talk in talks]
    for given in (rows, pd.DataFrame(rows), pd.Series(talks)):
        assert list(open_corpus(given, chat).documents()) == expected
    named = [{"talk": talk} for talk in talks]
    for options in (CorpusOptions(chat=True, field="talk"), CorpusOptions(chat=True, column="talk")):
        assert list(open_corpus(pd.DataFrame(named), options).documents()) == expected
    with pytest.raises(InputError, match=r"document 0: corpus requires a list of messages, .*\(got \{'role'"):
        open_corpus(talks[0], chat)
    with pytest.raises(InputError, match=r"DataFrame with the columns 'talk'; give one .* frame\['talk'\]"):
        open_corpus(pd.DataFrame(named), chat)
