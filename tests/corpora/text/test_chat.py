"""Messages of conversations: what their content may be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from theodolite.corpora.chat import write_conversation
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
