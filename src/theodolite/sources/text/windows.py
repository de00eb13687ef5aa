"""Windows: documents tokenized and cut to the maximum length of the model, without dropping anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.models.quirks import position_limit
from theodolite.sources.text.encoding import UNWRAPPED, Wrap, encode


@dataclass(frozen=True, slots=True)
class WindowArrays:
    """Many windows as concatenated arrays, without an object per window."""

    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    lengths: NDArray[np.int64]  # (windows,)
    document: NDArray[np.int64]  # (windows,) the number of the document of each
    number: NDArray[np.int64]  # (windows,) the number of each within its document

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def ends(self) -> NDArray[np.int64]:
        """The end of each window among the tokens. (windows,)"""
        return np.cumsum(self.lengths)

    def take(self, which: NDArray[np.int64]) -> WindowArrays:
        """Return these windows, in this order."""
        lengths = self.lengths[which]
        ends = np.cumsum(lengths)
        # All tokens of a window move by the same offset.
        offset = np.repeat((self.ends - self.lengths)[which] - (ends - lengths), lengths)
        tokens = np.arange(len(offset)) + offset
        return WindowArrays(
            self.ids[tokens], self.special[tokens], lengths, self.document[which], self.number[which]
        )

    def split(self, bounds: list[tuple[int, int]]) -> list[WindowArrays]:
        """Return the windows from start to stop for each (start, stop), as views."""
        edges = np.append(0, self.ends).tolist()
        parts = []
        for start, stop in bounds:
            tokens, windows = slice(edges[start], edges[stop]), slice(start, stop)
            of_windows = (self.lengths[windows], self.document[windows], self.number[windows])
            parts.append(WindowArrays(self.ids[tokens], self.special[tokens], *of_windows))
        return parts

    @property
    def named(self) -> NDArray[np.int64]:
        """The document and the number of each window. (windows, 2)"""
        return np.stack([self.document, self.number], axis=1)

    def names(self) -> tuple[tuple[int, int], ...]:
        """Return the document and the number of each window."""
        return tuple(zip(self.document.tolist(), self.number.tolist(), strict=True))


DEFAULT_MAX_TOKENS = 512
PADDING = 16
"""At most this fraction (one over PADDING) of a batch is padding; beyond it, one more batch costs less."""
LONG_WINDOW = 4096
"""Longer windows are padded only to equal lengths: the mask of padding grows with the square of the length."""
MOST_WINDOWS = 65_535  # in a packed batch: the limit of a GPU grid along one axis


@dataclass(frozen=True, slots=True)
class Window:
    """A segment of one document, with the special tokens that every window has."""

    document: int
    number: int
    ids: NDArray[np.int64]  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    words: NDArray[np.int64] | None = None  # (tokens,) number of the word, -1 for a special token
    spans: NDArray[np.int64] | None = None  # (tokens, 2) start and end of each token in the document

    def __len__(self) -> int:
        return len(self.ids)


def choose_window_length(config: Any, tokenizer: Any, requested: int | None, wrap: Wrap = UNWRAPPED) -> int:
    """Return the maximum number of tokens of a window: the requested one, or the limit of the model up to 512.

    Special tokens count, those of the tokenizer and those of `wrap`.
    """
    limit = min(position_limit(config), int(tokenizer.model_max_length))
    if requested is None:
        return min(DEFAULT_MAX_TOKENS, limit)
    least = int(tokenizer.num_special_tokens_to_add()) + len(wrap) + 1
    if requested < least:
        raise InputError(
            f"--max-tokens {requested} leaves no space for text: this tokenizer requires at least {least}."
        )
    if requested > limit:
        raise InputError(f"--max-tokens {requested} exceeds the limit of this model ({limit}).")
    return requested


def cut_windows(
    documents: Sequence[tuple[int, str]],
    tokenizer: Any,
    max_tokens: int,
    *,
    words: bool = False,
    wrap: Wrap = UNWRAPPED,
) -> list[Window]:
    """Tokenize (number, text) pairs and cut them into windows of at most max_tokens, special tokens included.

    `wrap` goes around every window, also of a blank document; its tokens are marked as special.
    """
    if not documents:
        return []
    if not tokenizer.is_fast:
        return _cut_in_python(documents, tokenizer, max_tokens, wrap)
    if not words and (flat := cut_window_arrays(documents, tokenizer, max_tokens, wrap)) is not None:
        return _to_windows(flat)
    encoded = tokenizer(
        [repair_surrogates(text) for _, text in documents],
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
        window = wrap_window(Window(documents[at][0], number, ids, special, numbers, spans), wrap)
        if len(window):
            windows.append(window)
    return windows


def cut_window_arrays(
    documents: Sequence[tuple[int, str]], tokenizer: Any, max_tokens: int, wrap: Wrap = UNWRAPPED
) -> WindowArrays | None:
    """Return what `cut_windows` does as arrays; None without documents or if the tokenizer is not supported."""
    if not (documents and tokenizer.is_fast):
        return None
    texts = [text for _, text in documents]
    if not all(map(str.isascii, texts)):
        texts = list(map(repair_surrogates, texts))
    found = encode(tokenizer, texts, max_tokens, wrap)
    if found is None:
        return None
    document = np.array([number for number, _ in documents], dtype=np.int64)
    first = np.searchsorted(found.text, found.text)  # the first window of the same text
    number = np.arange(len(found.text)) - first
    flat = WindowArrays(found.ids, found.special, found.lengths, document[found.text], number)
    return flat if found.lengths.all() else flat.take(np.flatnonzero(found.lengths))


def stack_windows(windows: Sequence[Window]) -> WindowArrays:
    """Return one or more windows as arrays."""
    return WindowArrays(
        np.concatenate([window.ids for window in windows]),
        np.concatenate([window.special for window in windows]),
        np.array([len(window) for window in windows], dtype=np.int64),
        np.array([window.document for window in windows], dtype=np.int64),
        np.array([window.number for window in windows], dtype=np.int64),
    )


def _to_windows(flat: WindowArrays) -> list[Window]:
    """Return the windows as objects, with views of their ids."""
    ends = flat.ends.tolist()
    return [
        Window(document, number, flat.ids[start:end], flat.special[start:end])
        for (document, number), start, end in zip(flat.names(), [0, *ends], ends, strict=False)
    ]


def _cut_in_python(
    documents: Sequence[tuple[int, str]], tokenizer: Any, max_tokens: int, wrap: Wrap
) -> list[Window]:
    """Cut windows for tokenizers of characters and bytes, which are written in Python and do not cut."""
    size = max_tokens - len(wrap) - int(tokenizer.num_special_tokens_to_add())
    windows = []
    for document, text in documents:
        plain = tokenizer(repair_surrogates(text), add_special_tokens=False)["input_ids"]
        starts = range(0, max(len(plain), 1), size)
        for number, start in enumerate(starts):
            part = plain[start : start + size]
            ids = np.array(tokenizer.build_inputs_with_special_tokens(part), dtype=np.int64)
            special = np.array(tokenizer.get_special_tokens_mask(part), dtype=np.bool_)
            window = wrap_window(Window(document, number, ids, special), wrap)
            if len(window):
                windows.append(window)
    return windows


def wrap_window(window: Window, wrap: Wrap) -> Window:
    """Return the window with the tokens of `wrap` around it: special, without a word or a place in the text."""
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


def shift_right(window: Window, start: int) -> Window:
    """Return the window as input of a decoder: shifted right by one position, with a special start token."""

    def shift(values: NDArray[np.int64], first: int) -> NDArray[np.int64]:
        return np.concatenate([np.full((1, *values.shape[1:]), first, dtype=np.int64), values[:-1]])

    return Window(
        window.document,
        window.number,
        shift(window.ids, start),
        np.append(True, window.special[:-1]),
        None if window.words is None else shift(window.words, -1),
        None if window.spans is None else shift(window.spans, 0),
    )


def repair_surrogates(text: str) -> str:
    """Return the text without lone surrogates, which no tokenizer accepts: joined in pairs or replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def group_by_length(
    windows: Sequence[Window], budget: int, longest_padded: int = LONG_WINDOW
) -> list[list[Window]]:
    """Group windows of similar length so that no group is padded to more than `budget` tokens.

    A group holds at least one window. At most a 16th of the budget is padding: for few documents of very different
    lengths another batch costs less. A pure function of the windows: sorted by length, equal lengths in order.
    Windows of more than `longest_padded` tokens share a group only with those of the same length.
    """
    ordered = sorted(windows, key=len)
    lengths = np.array([len(window) for window in ordered], dtype=np.int64)
    return [ordered[start:stop] for start, stop in padded_bounds(lengths, budget, longest_padded)]


def padded_bounds(
    lengths: NDArray[np.int64], budget: int, longest_padded: int = LONG_WINDOW
) -> list[tuple[int, int]]:
    """Return (start, stop) of the groups of `group_by_length` for windows of increasing lengths (windows,).

    The padding that a longer window adds depends only on the windows already in the group: windows of one length
    are added together.
    """
    sizes, counts = np.unique(lengths, return_counts=True)
    bounds = [0]  # of groups
    tokens = members = 0  # of the last group
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        most = budget // max(size, 1)
        fits = members and size <= longest_padded and members * size - tokens <= budget // PADDING
        free = max(most - members, 0) if fits else 0
        while count:
            if not free:
                bounds.append(bounds[-1])
                tokens, members, free = 0, 0, max(most, 1)
            joining = min(free, count)
            bounds[-1] += joining
            tokens, members = tokens + joining * size, members + joining
            free, count = free - joining, count - joining
    return list(pairwise(bounds))


def packed_bounds(lengths: NDArray[np.int64], budget: int) -> list[tuple[int, int]]:
    """Return (start, stop) of batches of about equal size, each of at most `budget` tokens. lengths: (windows,)

    >>> packed_bounds(np.array([2, 2, 2, 2, 2]), 6)
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
