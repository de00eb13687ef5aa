"""Wrapping: BOS in front of every window and EOS behind it, for tokenizers that add none themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from theodolite.errors import InputError

OPENING = ("bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id")
CLOSING = ("eos_token_id", "sep_token_id", "bos_token_id", "cls_token_id")


@dataclass(frozen=True, slots=True)
class Wrap:
    """The ids that are put around a window, in addition to what the tokenizer puts there; falsy for none."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.before) + len(self.after)


UNWRAPPED = Wrap()


def wrap_of(tokenizer: Any) -> Wrap:
    """Return what must be added so that a window begins and ends with a special token, each once.

    A side that the tokenizer sees to stays as it is: nothing for BERT, EOS alone for Llama. The tokens are BOS and
    EOS, or what the tokenizer has of the kind; GPT-2 has one for both.
    """
    opens, closes = own(tokenizer)
    before = () if opens else _first(tokenizer, OPENING)
    after = () if closes else _first(tokenizer, CLOSING)
    return Wrap(before, after)


def own(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Return the ids that the tokenizer itself puts in front of a text and behind it."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = list(encoded["input_ids"]), [bool(mark) for mark in encoded["special_tokens_mask"]]
    text = [place for place, mark in enumerate(special) if not mark]
    if not text:  # a tokenizer that drops what it does not know: nobody says which side is which
        return ids[:1], ids[1:]
    return ids[: text[0]], ids[text[-1] + 1 :]


def _first(tokenizer: Any, names: tuple[str, ...]) -> tuple[int, ...]:
    for name in names:
        found = getattr(tokenizer, name, None)
        if found is not None:
            return (int(found),)
    raise InputError("--wrap: this tokenizer has neither BOS nor EOS to wrap documents in; leave --wrap out.")
