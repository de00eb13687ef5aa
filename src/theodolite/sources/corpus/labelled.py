"""Labelled documents: a text, and what a decoder is to be fed with it."""

from __future__ import annotations

from typing import Self


class Labelled(str):
    """A document that carries a label: for an encoder-decoder, the text that its decoder reads.

    >>> pair = Labelled("une maison", "a house")
    >>> pair, pair.label, len(pair)
    ('une maison', 'a house', 10)
    """

    __slots__ = ("label",)
    label: str

    def __new__(cls, text: str, label: str) -> Self:
        """Make a string of the text, with the label beside it."""
        made = super().__new__(cls, text)
        made.label = label
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (str(self), self.label)


def labels_of(documents: list[tuple[int, str]]) -> dict[int, str]:
    """Return the labels by document, of those that have one."""
    return {number: text.label for number, text in documents if isinstance(text, Labelled)}
