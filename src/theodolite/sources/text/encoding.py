"""Encoding many short texts: what a tokenizer's call gives, without a step in Python for every text.

A fast tokenizer makes an object of every text and a list of every property of it; where texts are sentences, that
takes several times as long as the tokenizing itself, which many cores share. Here many texts go to the Rust part
as one, in the form in which it takes a text that has been split: every piece is normalised, split and encoded by
itself, as if it had come alone. Between two texts stands a special token, so that the ids tell where each ends.
Cutting into windows, and the special tokens around each, are then arithmetic on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from theodolite.sources.text.wrapping import UNWRAPPED, Wrap

Ints = NDArray[np.int64]
TOGETHER = 4096
"""Characters that are encoded as one: enough that an object for them costs nothing, few enough for many cores."""
MARKS = ("pad_token", "mask_token", "sep_token", "cls_token", "eos_token", "bos_token")
SLICES = 2
"""Parts of a call for every thread that shares it: while one thread makes numbers of what is encoded, and has the
interpreter to itself, others encode."""
_SETTING = Lock()
"""The Rust part refuses to be set while another thread encodes; what is set already is not set again."""
_SHARED: tuple[ThreadPoolExecutor, int] | None = None


class Encoded(NamedTuple):
    """Windows of several texts, one after the other."""

    ids: Ints  # (tokens,)
    special: NDArray[np.bool_]  # (tokens,)
    lengths: Ints  # (windows,)
    text: Ints  # (windows,) which text each is of


def share_among(threads: int) -> None:
    """Have so many threads share every call of `encode` in this process, which was forked and is told so first.

    The threads of the Rust part stayed behind, and with TOKENIZERS_PARALLELISM=false nobody looks for them: what
    a thread asks for it does itself.
    """
    global _SETTING, _SHARED
    _SETTING = Lock()  # another thread may have held it
    _SHARED = None
    if threads > 1:
        _SHARED = ThreadPoolExecutor(threads, thread_name_prefix="theodolite-encode"), threads


def encode(tokenizer: Any, texts: Sequence[str], most: int, wrap: Wrap = UNWRAPPED) -> Encoded | None:
    """Encode texts in windows of at most `most` tokens; None where the tokenizer has ways of its own.

    Every window has the tokenizer's special tokens around it, and those of `wrap` around these.
    """
    if not _usual(tokenizer) or tokenizer.truncation_side != "right":
        return None
    _set_plain(tokenizer)
    backend = tokenizer.backend_tokenizer
    own = _around(backend, texts)
    if own is None or most <= len(own) + len(wrap):
        return None
    around = Wrap(wrap.before + own.before, own.after + wrap.after)
    return _windows(*_bare(tokenizer, texts), most - len(around), around)


def _usual(tokenizer: Any) -> bool:
    """Say whether a tokenizer's call is the one that all fast tokenizers share."""
    from transformers import PreTrainedTokenizerFast

    kind = type(tokenizer)
    steps = ("__call__", "_encode_plus", "set_truncation_and_padding", "_convert_encoding")
    return isinstance(tokenizer, PreTrainedTokenizerFast) and all(
        getattr(kind, step, None) is getattr(PreTrainedTokenizerFast, step, tokenizer) for step in steps
    )


def _set_plain(tokenizer: Any) -> None:
    """Have the Rust part neither cut nor pad, and read special tokens in a text as the tokenizer says."""
    backend = tokenizer.backend_tokenizer
    with _SETTING:
        if backend.truncation is not None:
            backend.no_truncation()
        if backend.padding is not None:
            backend.no_padding()
        if backend.encode_special_tokens != tokenizer.split_special_tokens:
            backend.encode_special_tokens = tokenizer.split_special_tokens


def _around(backend: Any, texts: Sequence[str]) -> Wrap | None:
    """Return what is put around a text, as seen on one that has tokens; None if it is not the same for all."""
    for text in ("a", *(text[:64] for text in texts[:8])):
        bare, whole = backend.encode(text, add_special_tokens=False).ids, backend.encode(text)
        if not bare:
            continue
        ids, special = whole.ids, whole.special_tokens_mask
        start = special.index(0) if 0 in special else 0
        stop = start + len(bare)
        ours = [1] * start + [0] * len(bare) + [1] * (len(ids) - stop)
        added = backend.num_special_tokens_to_add(False)
        if ids[start:stop] != bare or special != ours or len(ids) - len(bare) != added:
            return None
        return Wrap(tuple(ids[:start]), tuple(ids[stop:]))
    return None


def _bare(tokenizer: Any, texts: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the ids of all texts without special tokens (tokens,), and how many are of each (texts,)."""
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    begun = np.flatnonzero(np.diff((np.cumsum(sizes) - sizes) // TOGETHER, prepend=-1))
    groups = [texts[start:stop] for start, stop in pairwise([*begun.tolist(), len(texts)])]
    mark = _mark(tokenizer)
    if _SHARED is None or len(groups) <= 1:
        return _of_groups(tokenizer, groups, mark)
    pool, threads = _SHARED
    parts = _slices(groups, np.add.reduceat(sizes, begun), threads * SLICES)
    found = list(pool.map(lambda part: _of_groups(tokenizer, part, mark), parts))
    return np.concatenate([ids for ids, _ in found]), np.concatenate([counts for _, counts in found])


def _slices(groups: Sequence[Sequence[str]], sizes: Ints, most: int) -> list[Sequence[Sequence[str]]]:
    """Return the groups, which have these sizes, in at most so many stretches of about one size. None is empty."""
    ends = np.cumsum(sizes)
    wanted = ends[-1] * np.arange(1, most) // most
    cuts = np.unique(np.concatenate([[0], np.searchsorted(ends, wanted, side="right"), [len(groups)]]))
    return [groups[start:stop] for start, stop in pairwise(cuts.tolist())]


def _of_groups(tokenizer: Any, groups: Sequence[Sequence[str]], mark: tuple[str, int] | None) -> tuple[Ints, Ints]:
    """Return what `_bare` does of texts that are encoded together in groups."""
    if mark is None:
        return _by_word(tokenizer.backend_tokenizer, groups)
    spelled, code = mark
    marked = [list(chain.from_iterable(zip(group, [spelled] * len(group), strict=True))) for group in groups]
    encodings = tokenizer.backend_tokenizer.encode_batch_fast(
        marked, is_pretokenized=True, add_special_tokens=False
    )
    ids = _joined([encoding.ids for encoding in encodings])
    marks = np.flatnonzero(ids == code)
    if len(marks) != sum(map(len, groups)):  # a text spells the mark
        return _by_word(tokenizer.backend_tokenizer, groups)
    return np.delete(ids, marks), np.diff(marks, prepend=-1) - 1


def _mark(tokenizer: Any) -> tuple[str, int] | None:
    """Return a special token that the Rust part makes one id of, and that id; None where there is none.

    The unknown token comes last: texts may have it. GPT-2 has no other, but no text that is unknown.
    """
    known = [getattr(tokenizer, name, None) for name in MARKS]
    for spelled in sorted(filter(None, known), key=lambda token: bool(token == tokenizer.unk_token)):
        ids = tokenizer.backend_tokenizer.encode(str(spelled), add_special_tokens=False).ids
        if len(ids) == 1:
            return str(spelled), ids[0]
    return None


def _by_word(backend: Any, groups: Sequence[Sequence[str]]) -> tuple[Ints, Ints]:
    """Return what `_bare` does, by the numbers that the Rust part gives to the pieces: of any text, but slower."""
    encodings = backend.encode_batch(groups, is_pretokenized=True, add_special_tokens=False)
    sizes = [len(group) for group in groups]
    before = np.repeat(np.cumsum(sizes) - sizes, [len(encoding) for encoding in encodings])
    of = _joined([encoding.word_ids for encoding in encodings]) + before
    return _joined([encoding.ids for encoding in encodings]), np.bincount(of, minlength=sum(sizes))


def _joined(lists: Sequence[list[int]]) -> Ints:
    return np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=sum(map(len, lists)))


def _windows(ids: Ints, tokens: Ints, room: int, around: Wrap) -> Encoded:
    """Cut the ids of texts, of which each has so many `tokens`, into windows of `room`; put `around` around each.

    A text without a token has one window all the same.
    """
    counts = np.maximum(-(-tokens // room), 1)
    text = np.repeat(np.arange(len(tokens)), counts)
    lengths = np.full(len(text), room + len(around), dtype=np.int64)
    last = np.cumsum(counts) - 1
    lengths[last] = tokens - (counts - 1) * room + len(around)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    special, whole = np.zeros(total, dtype=np.bool_), np.empty(total, dtype=np.int64)
    sides = ((ends - lengths, around.before), (ends - len(around.after), around.after))
    for begins, codes in sides:
        for at, code in enumerate(codes):
            whole[begins + at] = code
            special[begins + at] = True
    whole[~special] = ids
    return Encoded(whole, special, lengths, text)
