"""Small sample files for the laboratories: words with classes, sentence pairs, groups of sentences."""

from __future__ import annotations

from pathlib import Path

NAMES = ("groups.json", "pairs.json", "parts-of-speech.csv", "sentences.txt", "words.csv")


def path(name: str) -> Path:
    """Return the path of a sample, which is installed with the package.

    >>> path("words.csv").is_file()
    True
    """
    return Path(__file__).parent / name
