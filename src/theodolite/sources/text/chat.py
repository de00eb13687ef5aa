"""Conversations: written by the chat template of the tokenizer, and cut into windows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from theodolite.errors import InputError, first_line
from theodolite.sources.text.units import special_ids
from theodolite.sources.text.windows import Window, repair_surrogates


def check_chat(tokenizer: Any, name: str) -> None:
    """Reject a tokenizer without a chat template."""
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            f"--chat requires a tokenizer with a chat template, and that of {name} has none. Use the instruction "
            "model of the same family, or write the texts of the messages to a .txt file and omit --chat."
        )


def hash_template(tokenizer: Any) -> str:
    """Return the start of the sha256 of the chat template, which determines what the model reads."""
    return sha256(str(tokenizer.chat_template).encode()).hexdigest()[:16]


def write_text(tokenizer: Any, document: int, conversation: str) -> str:
    """Return a conversation as its chat template writes it, with all special tokens."""
    try:
        text = tokenizer.apply_chat_template(json.loads(conversation), tokenize=False)
    except Exception as error:  # templates are programs: they raise whatever their author chose
        raise InputError(
            f"The chat template of the tokenizer fails for document {document} of CORPUS, counted from 0: "
            f"{first_line(error)}. Check its messages and the template."
        ) from error
    return repair_surrogates(str(text))


def cut_conversations(
    documents: Sequence[tuple[int, str]], tokenizer: Any, max_tokens: int, *, words: bool = False
) -> tuple[list[Window], dict[int, str]]:
    """Write and tokenize conversations (number, JSON), and cut them into windows of at most max_tokens.

    Also returns the text of each. The template has written the special tokens, so the tokenizer adds none; all
    special tokens in the text are marked as special.
    """
    texts = {number: write_text(tokenizer, number, conversation) for number, conversation in documents}
    if not texts:
        return [], {}
    special_tokens = np.array(sorted(special_ids(tokenizer)), dtype=np.int64)  # an unknown token is text
    encoded = tokenizer(
        list(texts.values()),
        add_special_tokens=False,
        return_attention_mask=False,
        return_token_type_ids=False,
        return_offsets_mapping=words,
        verbose=False,  # it would warn of texts that are longer than a window
    )
    windows = []
    for row, number in enumerate(texts):
        ids = np.asarray(encoded["input_ids"][row], dtype=np.int64)
        special = np.isin(ids, special_tokens)
        numbers = spans = None
        if words:
            numbers = np.array([-1 if word is None else word for word in encoded.word_ids(row)], dtype=np.int64)
            numbers[special] = -1
            spans = np.asarray(encoded["offset_mapping"][row], dtype=np.int64)
        for at, start in enumerate(range(0, len(ids), max_tokens)):
            part = slice(start, start + max_tokens)
            own = (None if each is None else each[part] for each in (numbers, spans))
            windows.append(Window(number, at, ids[part], special[part], *own))
    return windows, texts
