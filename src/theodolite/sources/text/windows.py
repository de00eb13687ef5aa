"""Windows: documents tokenized and cut to what the model can take, nothing dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.sources.text.encoding import encode
from theodolite.sources.text.flat import Flat
from theodolite.sources.text.wrapping import UNWRAPPED, Wrap

DEFAULT_MAX_TOKENS = 512
PADDING = 16
"""A batch may hold padding up to its budget over this; past it, one more batch costs less."""
MOST_WINDOWS = 65_535  # laid end to end: a GPU starts no more programs side by side along one axis


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of one document with the special tokens that every window gets."""

    document: int
    number: int
    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    words: NDArray[np.int64] | None = None  # (tokens,) number of the word, -1 for a special token
    spans: NDArray[np.int64] | None = None  # (tokens, 2) where each token stands in the document

    def __len__(self) -> int:
        return len(self.ids)


def longest_window(config: Any, tokenizer: Any, asked: int | None, wrap: Wrap = UNWRAPPED) -> int:
    """Return how many tokens a window may hold: what was asked for, or the model's limit up to 512.

    Special tokens count, the tokenizer's own and those of `wrap`.
    """
    limit = min(_positions(config), int(tokenizer.model_max_length))
    if asked is None:
        return min(DEFAULT_MAX_TOKENS, limit)
    least = int(tokenizer.num_special_tokens_to_add()) + len(wrap) + 1
    if asked < least:
        raise InputError(f"--max-tokens {asked} leaves no room for text: this tokenizer needs at least {least}.")
    if asked > limit:
        raise InputError(f"--max-tokens {asked} is more than this model takes; it takes {limit}.")
    return asked


def _positions(config: Any) -> int:
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= 0:
        return 2**31
    return positions - first_position(config)  # the table is that much longer than a window


def first_position(config: Any) -> int:
    """Return the number of a window's first position: RoBERTa and its kin count from padding_idx + 1."""
    kin = ("roberta", "camembert", "xlm-roberta", "longformer", "xmod", "data2vec-text", "mpnet", "esm", "luke")
    return (config.pad_token_id or 0) + 1 if config.model_type.startswith(kin) else 0


def cut(
    documents: Sequence[tuple[int, str]],
    tokenizer: Any,
    max_tokens: int,
    *,
    words: bool = False,
    wrap: Wrap = UNWRAPPED,
) -> list[Window]:
    """Tokenize (number, text) pairs and cut them into windows of at most max_tokens, special tokens included.

    `wrap` goes around every window, a blank document's too, and is marked special like the tokenizer's own.
    """
    if not documents:
        return []
    if not tokenizer.is_fast:
        return _cut_by_hand(documents, tokenizer, max_tokens, wrap)
    if not words and (flat := cut_flat(documents, tokenizer, max_tokens, wrap)) is not None:
        return _windows(flat)
    encoded = tokenizer(
        [encodable(text) for _, text in documents],
        truncation=True,
        max_length=max_tokens - len(wrap),
        return_overflowing_tokens=True,
        return_special_tokens_mask=True,
        return_attention_mask=False,
        return_token_type_ids=False,
        return_offsets_mapping=words,
    )
    windows: list[Window] = []
    previous, number = -1, 0
    for row, at in enumerate(encoded["overflow_to_sample_mapping"]):
        number = number + 1 if at == previous else 0
        previous = at
        ids = np.asarray(encoded["input_ids"][row], dtype=np.int64)
        special = np.asarray(encoded["special_tokens_mask"][row], dtype=np.bool_)
        numbers = spans = None
        if words:
            numbers = np.array([-1 if w is None else w for w in encoded.word_ids(row)], dtype=np.int64)
            spans = np.asarray(encoded["offset_mapping"][row], dtype=np.int64)
        window = wrapped(Window(documents[at][0], number, ids, special, numbers, spans), wrap)
        if len(window):
            windows.append(window)
    return windows


def cut_flat(
    documents: Sequence[tuple[int, str]], tokenizer: Any, max_tokens: int, wrap: Wrap = UNWRAPPED
) -> Flat | None:
    """Return what `cut` does as arrays; None where this tokenizer, or no document, gives none."""
    if not (documents and tokenizer.is_fast):
        return None
    texts = [text for _, text in documents]
    if not all(map(str.isascii, texts)):
        texts = list(map(encodable, texts))
    found = encode(tokenizer, texts, max_tokens, wrap)
    if found is None:
        return None
    document = np.array([number for number, _ in documents], dtype=np.int64)
    first = np.searchsorted(found.text, found.text)  # the first window of the same text
    number = np.arange(len(found.text)) - first
    flat = Flat(found.ids, found.special, found.lengths, document[found.text], number)
    return flat if found.lengths.all() else flat.taken(np.flatnonzero(found.lengths))


def flattened(windows: Sequence[Window]) -> Flat:
    """Return windows, at least one, as arrays."""
    return Flat(
        np.concatenate([window.ids for window in windows]),
        np.concatenate([window.special for window in windows]),
        np.array([len(window) for window in windows], dtype=np.int64),
        np.array([window.document for window in windows], dtype=np.int64),
        np.array([window.number for window in windows], dtype=np.int64),
    )


def _windows(flat: Flat) -> list[Window]:
    """Return the windows as objects, with views of their ids."""
    ends = flat.ends.tolist()
    return [
        Window(document, number, flat.ids[start:end], flat.special[start:end])
        for (document, number), start, end in zip(flat.names(), [0, *ends], ends, strict=False)
    ]


def _cut_by_hand(
    documents: Sequence[tuple[int, str]], tokenizer: Any, max_tokens: int, wrap: Wrap
) -> list[Window]:
    """Cut for tokenizers of characters and bytes, which are written in Python and cut nothing themselves."""
    room = max_tokens - len(wrap) - int(tokenizer.num_special_tokens_to_add())
    windows = []
    for document, text in documents:
        plain = tokenizer(encodable(text), add_special_tokens=False)["input_ids"]
        starts = range(0, max(len(plain), 1), room)
        for number, start in enumerate(starts):
            part = plain[start : start + room]
            ids = np.array(tokenizer.build_inputs_with_special_tokens(part), dtype=np.int64)
            special = np.array(tokenizer.get_special_tokens_mask(part), dtype=np.bool_)
            window = wrapped(Window(document, number, ids, special), wrap)
            if len(window):
                windows.append(window)
    return windows


def wrapped(window: Window, wrap: Wrap) -> Window:
    """Return the window with the tokens of `wrap` around it: special, of no word, standing nowhere in the text."""
    if not wrap:
        return window
    sides = (len(wrap.before), len(wrap.after))
    return Window(
        window.document,
        window.number,
        np.concatenate([wrap.before, window.ids, wrap.after]).astype(np.int64),
        np.pad(window.special, sides, constant_values=True),
        None if window.words is None else np.pad(window.words, sides, constant_values=-1),
        None if window.spans is None else np.pad(window.spans.reshape(-1, 2), (sides, (0, 0))),
    )


def shifted(window: Window, start: int) -> Window:
    """Return the window as a decoder is fed it: moved on by one position, a special start in front."""

    def moved(values: NDArray[np.int64], first: int) -> NDArray[np.int64]:
        return np.concatenate([np.full((1, *values.shape[1:]), first, dtype=np.int64), values[:-1]])

    return Window(
        window.document,
        window.number,
        moved(window.ids, start),
        np.append(True, window.special[:-1]),
        None if window.words is None else moved(window.words, -1),
        None if window.spans is None else moved(window.spans, 0),
    )


def encodable(text: str) -> str:
    """Return the text as the tokenizer sees it: surrogates that no tokenizer takes joined in pairs or replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def buckets(windows: Sequence[Window], budget: int, *, pads: bool = True) -> list[list[Window]]:
    """Group windows of like length so that no group pads to more than `budget` tokens; a group holds at least one.

    Nor is more than a 16th of the budget padding: where few documents come together, and their lengths lie far
    apart, another batch costs less. A pure function of the windows: sorted by length, equal lengths in order.
    Without `pads` a group holds windows of one length only, for models whose states padding would move.
    """
    ordered = sorted(windows, key=len)
    lengths = np.array([len(window) for window in ordered], dtype=np.int64)
    return [ordered[start:stop] for start, stop in bucket_bounds(lengths, budget, pads=pads)]


def bucket_bounds(lengths: NDArray[np.int64], budget: int, *, pads: bool = True) -> list[tuple[int, int]]:
    """Return where the groups of `buckets` begin and end among windows of rising lengths (windows,).

    How much of a group is padding when a longer window joins it depends on what it holds, not on how many join:
    windows of one length are put into groups together.
    """
    sizes, counts = np.unique(lengths, return_counts=True)
    bounds = [0]  # of groups
    held = taken = 0  # tokens and windows of the last group
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        most = budget // max(size, 1)
        fits = taken and pads and taken * size - held <= budget // PADDING
        room = max(most - taken, 0) if fits else 0
        while count:
            if not room:
                bounds.append(bounds[-1])
                held, taken, room = 0, 0, max(most, 1)
            joining = min(room, count)
            bounds[-1] += joining
            held, taken = held + joining * size, taken + joining
            room, count = room - joining, count - joining
    return list(pairwise(bounds))


def even_bounds(lengths: NDArray[np.int64], budget: int) -> list[tuple[int, int]]:
    """Return where batches of windows begin and end, each of at most `budget` tokens and about as many. (windows,)

    >>> even_bounds(np.array([2, 2, 2, 2, 2]), 6)
    [(0, 2), (2, 5)]
    """
    ends = np.cumsum(lengths)
    total, longest = int(ends[-1]), int(lengths.max())
    count = -(-total // max(budget - longest + 1, 1))
    cuts = np.searchsorted(ends, total * np.arange(1, count) / count, side="right")
    bounds = pairwise(np.unique([0, *cuts.tolist(), len(lengths)]).tolist())
    return [
        (begin, min(begin + MOST_WINDOWS, stop))
        for start, stop in bounds
        for begin in range(start, stop, MOST_WINDOWS)
    ]
