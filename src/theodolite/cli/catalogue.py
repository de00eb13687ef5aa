"""theodolite models, theodolite corpora: what the catalogue has."""

from __future__ import annotations

import json as encoder
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def models(json: Json = False) -> None:
    """List the models of the catalogue: real weights that come through the package index."""
    from theodolite.sources import catalogue

    rows = [
        {
            "name": entry.name,
            "kind": entry.kind,
            "layers": entry.layers,
            "dim": entry.dim,
            "vocabulary": entry.vocabulary,
            "MB": round(entry.size / 1e6),
            "here": catalogue.is_cached(entry),
            "licence": entry.licence,
            "what": entry.description,
        }
        for entry in catalogue.MODELS.values()
    ]
    _print(rows, json, "Any folder, .gguf file or hub name does as well.")


def corpora(json: Json = False) -> None:
    """List the corpora of the catalogue."""
    from theodolite.sources import catalogue

    rows = [
        {
            "name": entry.name,
            "kind": entry.kind,
            "documents": entry.documents,
            "MB": round(entry.fetched / 1e6),
            "here": catalogue.is_cached(entry),
            "licence": entry.licence,
            "what": entry.description,
        }
        for entry in catalogue.CORPORA.values()
    ]
    hint = (
        "Any .txt, .jsonl or .parquet file, .gz too, or a glob of them does as well; hf:NAME for the datasets "
        "library; for audio and images a folder of them."
    )
    _print(rows, json, hint)


def _print(rows: list[dict[str, Any]], json: bool, hint: str) -> None:
    from theodolite.cli.console import result
    from theodolite.cli.plain_table import print_rows

    if json:
        result(encoder.dumps(rows))
        return
    shown = [{**row, "here": "yes" if row["here"] else "fetched when first used"} for row in rows]
    print_rows(shown)
    result(hint)
