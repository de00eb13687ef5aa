"""What the user wants of a survey, whatever is surveyed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from theodolite.errors import InputError
from theodolite.naming import several
from theodolite.sources.corpus import CorpusOptions
from theodolite.sources.source import Source
from theodolite.statistics.cells import POPULATIONS
from theodolite.surveys.listener import Listener
from theodolite.surveys.pilot import MASSIVE
from theodolite.surveys.run import part_of
from theodolite.surveys.storage import Place


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The options of `theodolite.survey` that shape the numbers; see there. None is what suits the model."""

    units: str | None = None
    layers: str | Sequence[int] | None = None
    min_words: int | None = None
    max_words: int | None = None
    sample: float | None = None
    seed: int = 0
    limit: int | None = None
    field: str = "text"
    column: str = "text"
    encoding_errors: str = "strict"
    target: str | None = None
    max_tokens: int | None = None
    batch_tokens: int | None = None
    drop_special: bool = False
    wrap: bool = False
    clean_words: bool = False
    contextuality: bool = False
    maps: str | None = None
    skip_bad: bool = False
    max_seconds: float = 30.0
    populations: Sequence[str] = tuple(POPULATIONS)
    sample_size: int = 4096
    pilot: Place | None = None
    part: str | None = None
    memory: int | None = None
    dtype: str = "float32"
    trust_remote_code: bool = False

    def text_options(self) -> CorpusOptions:
        """Return which documents of a text corpus are kept."""
        return CorpusOptions(
            self.field,
            self.column,
            self.min_words,
            self.max_words,
            self.sample,
            self.seed,
            self.limit,
            encoding_errors=self.encoding_errors,
            target=self.target,
        )

    def chosen(self, shards: Sequence[int], listener: Listener) -> list[int]:
        """Return the shards of the part that is wanted; of parts that will be empty the first one tells."""
        chosen = list(part_of(shards, self.part))
        only = f"--part {self.part}: the corpus has only {several(len(shards), 'shard')}"
        if not chosen:
            raise InputError(f"{only}, so this part is empty.")
        number, _, of = (self.part or "0/1").partition("/")
        if int(number) == 0 and len(shards) < int(of):
            listener.warn(f"{only}: {'this part is all of it' if len(shards) == 1 else 'later parts are empty'}")
        return chosen

    def shared_settings(self, source: Source) -> dict[str, Any]:
        """Return the settings that every kind of survey is identified by."""
        return {
            "units": source.units.kind,
            "layers": [layer.index for layer in source.layers],
            "populations": list(self.populations),
            "contextuality": self.contextuality,
            "sample_size": self.sample_size,
            "massive": MASSIVE,
        }

    def refuse_for(self, kind: str, **given: str) -> None:
        """Refuse options, by field and flag, that a model of this kind has no use for."""
        plain = Wanted()
        for name, flag in given.items():
            if getattr(self, name) != getattr(plain, name):
                raise InputError(f"{flag} is for text; this is a model of {kind}.")
