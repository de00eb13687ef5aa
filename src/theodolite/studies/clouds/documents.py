"""Documents of a corpus for a cloud: a seeded draw over all of it, none twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from theodolite.errors import InputError
from theodolite.sources.corpus import Corpus, open_corpus

Say = Callable[[str], None]
FEWEST, MOST = 20, 5_000


@dataclass(frozen=True)
class Drawn:
    """What was drawn of a corpus."""

    name: str
    texts: tuple[str, ...]
    numbers: tuple[int, ...]  # of the documents in their corpus
    read: int
    repeated: int  # documents that were there before, left out


def check_limit(limit: int) -> None:
    """Refuse a number of documents that says nothing, or whose pairs would fill the memory."""
    if not FEWEST <= limit <= MOST:
        raise InputError(f"--limit wants {FEWEST} to {MOST:,} documents a corpus, but {limit:,} came.")


def draw(
    corpora: Sequence[str | Path | Iterable[str]],
    limit: int,
    *,
    seed: int = 0,
    first: bool = False,
    say: Say | None = None,
) -> list[Drawn]:
    """Draw up to `limit` documents of each corpus; `first` takes those it begins with, unread the rest."""
    check_limit(limit)
    if len(corpora) < 2:
        raise InputError(f"CORPORA: clouds are compared, so two or more corpora are wanted; {len(corpora)} came.")
    opened = [open_corpus(corpus, None, say) for corpus in corpora]
    names = [corpus.name for corpus in opened]
    for corpus, held in zip(corpora, names, strict=True):
        if isinstance(corpus, str | Path) and names.count(held) > 1:
            raise _twice(held)
    found, shown = [], short_names(names)
    for number, each in enumerate(opened):
        if say is not None:
            say(f"reading {each.name}")
        found.append(_drawn(each, shown[number], limit, random.Random(f"{seed} {number}"), first=first))
    _check(found)
    return found


def short_names(names: Sequence[str]) -> list[str]:
    """Return names for figures: a file's without its folder, and a number behind those that are still alike.

    >>> short_names(["in/a.txt", "chitchat", "list of 9", "list of 9"])
    ['a.txt', 'chitchat', 'list of 9 (3)', 'list of 9 (4)']
    """
    bare = [Path(name).name if not name.startswith("hf:") else name for name in names]
    return [name if bare.count(name) == 1 else f"{name} ({at})" for at, name in enumerate(bare, 1)]


def _drawn(corpus: Corpus, name: str, limit: int, rng: random.Random, *, first: bool) -> Drawn:
    """Fill a reservoir, so that each document is as likely to be in it as any other."""
    kept: list[tuple[int, str]] = []
    seen = set[int]()
    read = repeated = 0
    for document in corpus.documents():
        read += 1
        text = hash(document[1])
        if text in seen:
            repeated += 1
            continue
        seen.add(text)
        if len(kept) < limit:
            kept.append(document)
        elif (place := rng.randrange(len(seen))) < limit:
            kept[place] = document
        if first and len(kept) == limit:
            break
    rng.shuffle(kept)  # where clouds differ in size the first of the larger are taken, and must be any of them
    return Drawn(name, tuple(text for _, text in kept), tuple(number for number, _ in kept), read, repeated)


def _check(found: Sequence[Drawn]) -> None:
    for drawn in found:
        if len(drawn.texts) < FEWEST:
            raise InputError(
                f"CORPUS {drawn.name!r} has {len(drawn.texts)} different documents; at least {FEWEST} are wanted, "
                "since fewer tell nothing about a cloud. Lines of a .txt file are documents: split long ones."
            )
    for number, drawn in enumerate(found):
        for other in found[:number]:
            if set(drawn.texts) == set(other.texts):
                raise _twice(f"{other.name}' and '{drawn.name}")


def _twice(name: str) -> InputError:
    return InputError(
        f"CORPUS '{name}' came twice: a cloud is not apart from itself. To see what no difference looks like, "
        "split it into two files."
    )
