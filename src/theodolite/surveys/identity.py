"""Identity: what must agree before two runs may share sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SINCE = {f"settings.{name}": False for name in ("wrap", "clean_words", "contextuality", "end_to_end")}
"""Settings that older surveys do not tell, and what those did."""
UNTOLD = ("model.settings",)
"""What older surveys do not tell: where one does not, nothing can be compared."""
FREE_TO_DIFFER_IN_MERGE = (
    "corpus.",
    "model.device",
    "settings.batch_tokens",
    "settings.shard_chars",
    "settings.end_to_end",
)


DIGESTS = {
    "model.sha256": "the weights",
    "model.settings": "the settings of the model or its tokenizer, such as config.json",
    "tokenizer.sha256": "the vocabulary",
    "corpus.sha256": "the documents that were read",
    "corpus.labels": "the labels",
    "corpus.labelled": "the labels, or the positions that count",
}
"""What is told by a digest, in words: its digits say nothing to a reader."""


def differences(there: Mapping[str, Any], here: Mapping[str, Any], *, merging: bool = False) -> list[str]:
    """List what differs between two identities, a line each: "settings.units: 'id' there, 'word' here".

    Merging needs less to agree: the corpora may be different ones, and batches only move numbers by rounding.
    """
    old, new = SINCE | dict(_flat(there)), SINCE | dict(_flat(here))
    return [
        f"{name}: {_told(name, old.get(name))} there, {_told(name, new.get(name))} here{_meaning(name)}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
        and not (name in UNTOLD and not (name in old and name in new))
        and not (merging and name.startswith(FREE_TO_DIFFER_IN_MERGE))
    ]


def _told(name: str, value: Any) -> str:
    return f"{str(value)[:8]}…" if name in DIGESTS and value else repr(value)


def _meaning(name: str) -> str:
    return f" ({DIGESTS[name]})" if name in DIGESTS else ""


def owner(survey_facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes the files of a second pass belong to a survey: weights, documents, settings."""
    known = survey_facts.get("identity") or {}
    return {name: known.get(name) for name in ("model", "tokenizer", "corpus", "settings")}


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _flat(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", item
