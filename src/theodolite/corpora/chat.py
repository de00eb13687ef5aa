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
    if not isinstance(value, list | tuple):
        raise _no_messages(value, where, option)
    messages = []
    for number, each in enumerate(value, start=1):
        message = _read_message(each)
        if message is None:
            raise _no_messages(each, f"{where}, message {number}", option)
        messages.append(message)
    return json.dumps(messages, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _no_messages(wrong: object, where: str, option: str) -> InputError:
    return InputError(
        f"{where}: {option} requires a list of messages, each with a role and a content of text, such as "
        f'[{{"role": "user", "content": "..."}}] (got {_shorten(wrong)}).'
    )


def _read_message(message: object) -> dict[str, Any] | None:
    """Return a message with its content as one string; None if it has no role or something else than text.

    The content may be a string or a list of parts of text. It may be missing where a message has something else,
    such as calls of tools.
    """
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return None
    # Columns of Parquet have every key of every message, null where a message does not have it.
    kept = {key: part for key, part in message.items() if part is not None or key == "content"}
    content = kept.get("content")
    if isinstance(content, list):
        texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        if len(texts) < len(content):
            return None
        kept["content"] = "".join(texts)
    elif not isinstance(content, str):
        others = [part for key, part in kept.items() if key not in ("role", "content")]
        if content is not None or not any(others):
            return None
    return kept


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
