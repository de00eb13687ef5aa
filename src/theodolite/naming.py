"""What a survey is called: folders and files by the end of their path, as a caption has no room for the rest."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any


def short_path(name: str, parts: int = 1) -> str:
    """Return the last parts of a path; a name of the hub or of the catalogue is none, and stays.

    >>> short_path("/data/runs/decoder/step-400", 2), short_path("texts/books.txt"), short_path("org/model")
    ('decoder/step-400', 'books.txt', 'org/model')
    """
    path = PurePath(name)
    is_path = path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2 or path.suffix in SUFFIXES
    return "/".join(path.parts[-parts:]).lstrip("/") or name if is_path else name


SUFFIXES = {".txt", ".jsonl", ".json", ".gz", ".parquet", ".csv", ".npy", ".npz", ".safetensors", ".gguf"}


def several(count: float, one: str, many: str = "") -> str:
    """Return a count with its noun.

    >>> several(1, "document"), several(2000, "document")
    ('1 document', '2,000 documents')
    """
    return f"{round(count):,} {one if round(count) == 1 else many or one + 's'}"


def survey_name(facts: dict[str, Any]) -> str:
    """Return what was surveyed, in a few words."""
    model, corpus = facts["model"], facts["corpus"]
    read = short_path(str(corpus["name"]))
    return f"{short_path(str(model['name']), 2)} on {read}" if model else read
