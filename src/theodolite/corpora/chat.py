"""Conversations as documents: a list of messages, written as JSON in one fixed form."""

from __future__ import annotations

import json
from typing import Any

from theodolite.errors import InputError

FIELD = "messages"
"""The field or column of conversations, unless another is named."""


def write_conversation(value: object, where: str, option: str = "--field") -> str | None:
    """Return a list of messages as JSON, the same for every kind of file; None for a null or an empty list.

    >>> write_conversation([{"content": "Hi", "role": "user"}], "memory")
    '[{"content":"Hi","role":"user"}]'
    """
    if value is None or value == []:
        return None
    messages = list(value) if isinstance(value, list | tuple) else None
    wrong = value
    if messages is not None:
        lacking = [
            number
            for number, each in enumerate(messages, start=1)
            if not (isinstance(each, dict) and isinstance(each.get("role"), str))
        ]
        if lacking:
            where, wrong = f"{where}, message {lacking[0]}", messages[lacking[0] - 1]
    if messages is None or wrong is not value:
        raise InputError(
            f"{where}: {option} requires a list of messages, each with a role and a content, such as "
            f'[{{"role": "user", "content": "..."}}] (got {_shorten(wrong)}).'
        )
    # Columns of Parquet have every key of every message, null where a message does not have it.
    kept = [{key: part for key, part in each.items() if part is not None or key == "content"} for each in messages]
    return json.dumps(kept, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def cut_conversation(text: str, characters: int) -> str:
    """Return the first messages with about this many characters of content, at least one message.

    >>> cut_conversation('[{"content":"abcdef","role":"user"},{"content":"g","role":"assistant"}]', 4)
    '[{"content":"abcd","role":"user"}]'
    """
    kept: list[dict[str, Any]] = []
    for message in json.loads(text):
        content = message.get("content")
        size = len(content) if isinstance(content, str) else len(json.dumps(content))
        if kept and size > characters:
            break
        kept.append(message | {"content": content[:characters]} if isinstance(content, str) else message)
        characters -= size
        if characters <= 0:
            break
    return json.dumps(kept, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _shorten(value: object, most: int = 60) -> str:
    shown = repr(value)
    return shown if len(shown) <= most else f"{shown[:most]}..."
