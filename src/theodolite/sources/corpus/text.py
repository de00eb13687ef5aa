"""Plain text: one document a line."""

from collections.abc import Iterator
from pathlib import Path

from theodolite.sources.corpus.lines import line_blocks
from theodolite.sources.corpus.options import CorpusOptions


def read_text(path: Path, options: CorpusOptions) -> Iterator[list[str | None]]:
    """Yield the lines of a file, blank ones among them, some hundreds at a time."""
    for _, lines in line_blocks(path, options.encoding_errors):
        yield [*lines]
