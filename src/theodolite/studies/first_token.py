"""A warning for those who pool at the first token of a model that has read nothing else there."""

from __future__ import annotations

from theodolite.studies.sentence_states import SentenceReader
from theodolite.surveys.listener import Listener


def warn_of_first(reader: SentenceReader, pooling: str, listener: Listener) -> None:
    """Warn where the first token's state cannot tell anything of the text behind it."""
    if reader.causal and pooling == "first":
        listener.warn(
            "--pooling first: this model reads from left to right, so its first token has seen nothing of the "
            "rest; last or mean has."
        )
