"""Encode many short texts: what a call of the tokenizer gives, without a step in Python for every text.

A fast tokenizer creates an object for every text and a list for each of its properties; for sentences that takes
several times as long as the tokenizing itself, which many cores share. Here many texts go to the Rust tokenizer as
one input that is already split: every piece is normalised, split and encoded by itself. A special token between
two texts marks where each ends. Cutting into windows and adding special tokens are then array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import InputError

OPENING = ("bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id")
CLOSING = ("eos_token_id", "sep_token_id", "bos_token_id", "cls_token_id")


@dataclass(frozen=True, slots=True)
class Wrap:
    """The ids that are put around a window, in addition to those of the tokenizer; false if there are none."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.before) + len(self.after)


UNWRAPPED = Wrap()


def find_wrap(tokenizer: Any) -> Wrap:
    """Return the ids to add so that a window begins and ends with one special token.

    A side to which the tokenizer adds a token stays as it is: nothing for BERT, only EOS for Llama. The tokens are
    BOS and EOS, or the corresponding ones of the tokenizer; GPT-2 has one for both.
    """
    opens, closes = own_special_tokens(tokenizer)
    before = () if opens else _first_token(tokenizer, OPENING)
    after = () if closes else _first_token(tokenizer, CLOSING)
    return Wrap(before, after)


def own_special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer itself puts before and after a text."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = list(encoded["input_ids"]), [bool(mark) for mark in encoded["special_tokens_mask"]]
    text = [place for place, mark in enumerate(special) if not mark]
    if not text:  # the tokenizer drops unknown text: the sides cannot be distinguished
        return ids[:1], ids[1:]
    return ids[: text[0]], ids[text[-1] + 1 :]


def _first_token(tokenizer: Any, names: tuple[str, ...]) -> tuple[int, ...]:
    for name in names:
        found = getattr(tokenizer, name, None)
        if found is not None:
            return (int(found),)
    raise InputError("--wrap requires a tokenizer with BOS or EOS, which this one does not have; omit --wrap.")


Ints = NDArray[np.int64]
TOGETHER = 4096
"""Characters encoded together: enough to make the cost per object negligible, few enough for many cores."""
MARKS = ("pad_token", "mask_token", "sep_token", "cls_token", "eos_token", "bos_token")
SLICES = 2
"""Parts of a call per thread: while one thread makes arrays and holds the interpreter, others encode."""
_SETTING = Lock()
"""The Rust tokenizer cannot be configured while another thread encodes; settings change only if needed."""
_SHARED: tuple[ThreadPoolExecutor, int] | None = None


class Encoded(NamedTuple):
    """Windows of several texts, concatenated."""

    ids: Ints  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    lengths: Ints  # (windows,)
    text: Ints  # (windows,) the text of each


def use_threads(threads: int) -> None:
    """Let this many threads share every call of `encode` in this forked process; call it first after the fork.

    A fork has no threads of the Rust tokenizer, and with TOKENIZERS_PARALLELISM=false it does not use any: each
    thread encodes by itself.
    """
    global _SETTING, _SHARED
    _SETTING = Lock()  # another thread may have held it during the fork
    _SHARED = None
    if threads > 1:
        _SHARED = ThreadPoolExecutor(threads, thread_name_prefix="theodolite-encode"), threads


def encode(tokenizer: Any, texts: Sequence[str], most: int, wrap: Wrap = UNWRAPPED) -> Encoded | None:
    """Encode texts in windows of at most `most` tokens; None if the tokenizer is not a standard one.

    Every window has the special tokens of the tokenizer around it, and those of `wrap` around these.
    """
    if not _is_standard(tokenizer) or tokenizer.truncation_side != "right":
        return None
    _set_plain(tokenizer)
    backend = tokenizer.backend_tokenizer
    own = _special_tokens_around(backend, texts)
    if own is None or most <= len(own) + len(wrap):
        return None
    around = Wrap(wrap.before + own.before, own.after + wrap.after)
    return _cut_ids(*_encode_bare(tokenizer, texts), most - len(around), around)


def _is_standard(tokenizer: Any) -> bool:
    """Return whether a tokenizer uses the call that all fast tokenizers share."""
    from transformers import PreTrainedTokenizerFast

    kind = type(tokenizer)
    steps = ("__call__", "_encode_plus", "set_truncation_and_padding", "_convert_encoding")
    return isinstance(tokenizer, PreTrainedTokenizerFast) and all(
        getattr(kind, step, None) is getattr(PreTrainedTokenizerFast, step, tokenizer) for step in steps
    )


def _set_plain(tokenizer: Any) -> None:
    """Disable truncation and padding in Rust, and set how special tokens in a text are read."""
    backend = tokenizer.backend_tokenizer
    with _SETTING:
        if backend.truncation is not None:
            backend.no_truncation()
        if backend.padding is not None:
            backend.no_padding()
        if backend.encode_special_tokens != tokenizer.split_special_tokens:
            backend.encode_special_tokens = tokenizer.split_special_tokens


def _special_tokens_around(backend: Any, texts: Sequence[str]) -> Wrap | None:
    """Return the special tokens around a text, found on a text with tokens; None if they vary."""
    for text in ("a", *(text[:64] for text in texts[:8])):
        bare, complete = backend.encode(text, add_special_tokens=False).ids, backend.encode(text)
        if not bare:
            continue
        ids, special = complete.ids, complete.special_tokens_mask
        start = special.index(0) if 0 in special else 0
        stop = start + len(bare)
        expected = [1] * start + [0] * len(bare) + [1] * (len(ids) - stop)
        added = backend.num_special_tokens_to_add(False)
        if ids[start:stop] != bare or special != expected or len(ids) - len(bare) != added:
            return None
        return Wrap(tuple(ids[:start]), tuple(ids[stop:]))
    return None


def _encode_bare(tokenizer: Any, texts: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the ids of all texts without special tokens (tokens,), and the number of ids of each (texts,)."""
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    starts = np.flatnonzero(np.diff((np.cumsum(sizes) - sizes) // TOGETHER, prepend=-1))
    groups = [texts[start:stop] for start, stop in pairwise([*starts.tolist(), len(texts)])]
    mark = _find_separator(tokenizer)
    if _SHARED is None or len(groups) <= 1:
        return _encode_groups(tokenizer, groups, mark)
    pool, threads = _SHARED
    parts = _split_groups(groups, np.add.reduceat(sizes, starts), threads * SLICES)
    found = list(pool.map(lambda part: _encode_groups(tokenizer, part, mark), parts))
    return np.concatenate([ids for ids, _ in found]), np.concatenate([counts for _, counts in found])


def _split_groups(groups: Sequence[Sequence[str]], sizes: Ints, most: int) -> list[Sequence[Sequence[str]]]:
    """Split the groups, which have these sizes, into at most `most` non-empty parts of about equal size."""
    ends = np.cumsum(sizes)
    targets = ends[-1] * np.arange(1, most) // most
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ends, targets, side="right"), [len(groups)]]))
    return [groups[start:stop] for start, stop in pairwise(cuts.tolist())]


def _encode_groups(
    tokenizer: Any, groups: Sequence[Sequence[str]], mark: tuple[str, int] | None
) -> tuple[Ints, Ints]:
    """Return what `_encode_bare` does, for texts that are encoded together in groups."""
    if mark is None:
        return _encode_by_word(tokenizer.backend_tokenizer, groups)
    spelled, code = mark
    marked = [list(chain.from_iterable(zip(group, [spelled] * len(group), strict=True))) for group in groups]
    encodings = tokenizer.backend_tokenizer.encode_batch_fast(
        marked, is_pretokenized=True, add_special_tokens=False
    )
    ids = _join([encoding.ids for encoding in encodings])
    marks = np.flatnonzero(ids == code)
    if len(marks) != sum(map(len, groups)):  # a text contains the separator
        return _encode_by_word(tokenizer.backend_tokenizer, groups)
    return np.delete(ids, marks), np.diff(marks, prepend=-1) - 1


def _find_separator(tokenizer: Any) -> tuple[str, int] | None:
    """Return a special token that is encoded as one id, and that id; None if there is none.

    The unknown token comes last, because texts may contain it. GPT-2 has no other, but no unknown text either.
    """
    known = [getattr(tokenizer, name, None) for name in MARKS]
    for spelled in sorted(filter(None, known), key=lambda token: bool(token == tokenizer.unk_token)):
        ids = tokenizer.backend_tokenizer.encode(str(spelled), add_special_tokens=False).ids
        if len(ids) == 1:
            return str(spelled), ids[0]
    return None


def _encode_by_word(backend: Any, groups: Sequence[Sequence[str]]) -> tuple[Ints, Ints]:
    """Return what `_encode_bare` does, by the word numbers of the encodings: for any text, but slower."""
    encodings = backend.encode_batch(groups, is_pretokenized=True, add_special_tokens=False)
    sizes = [len(group) for group in groups]
    before = np.repeat(np.cumsum(sizes) - sizes, [len(encoding) for encoding in encodings])
    of = _join([encoding.word_ids for encoding in encodings]) + before
    return _join([encoding.ids for encoding in encodings]), np.bincount(of, minlength=sum(sizes))


def _join(lists: Sequence[list[int]]) -> Ints:
    return np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=sum(map(len, lists)))


def _cut_ids(ids: Ints, tokens: Ints, size: int, around: Wrap) -> Encoded:
    """Cut the ids of texts with these numbers of `tokens` into windows of `size`; put `around` around each.

    A text without tokens has one window.
    """
    counts = np.maximum(-(-tokens // size), 1)
    text = np.repeat(np.arange(len(tokens)), counts)
    lengths = np.full(len(text), size + len(around), dtype=np.int64)
    last = np.cumsum(counts) - 1
    lengths[last] = tokens - (counts - 1) * size + len(around)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    special, result = np.zeros(total, dtype=np.bool_), np.empty(total, dtype=np.int64)
    sides = ((ends - lengths, around.before), (ends - len(around.after), around.after))
    for begins, codes in sides:
        for at, code in enumerate(codes):
            result[begins + at] = code
            special[begins + at] = True
    result[~special] = ids
    return Encoded(result, special, lengths, text)
