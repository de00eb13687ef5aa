"""theodolite clouds: corpora as clouds of vectors, and how far they are apart."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Dtype, Quiet, Revision, TrustRemoteCode

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings

LEGEND = (
    "accuracy: of a straight line on documents that it has not seen, [ ] 95%, one half is guessing; energy: the "
    "energy distance as a share of the distance between the clouds; p by relabelling documents; by length: the "
    "accuracy of the number of tokens alone. matched: all documents cut to one number of tokens."
)


def clouds(
    model: Annotated[str, typer.Argument(help="Catalogue name, model folder, .gguf file or hub name.")],
    corpora: Annotated[
        list[str], typer.Argument(metavar="A B [C ...]", help="Corpora: catalogue names, files, globs or hf:NAME.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for what is found.")],
    limit: Annotated[int, typer.Option(help="Documents of each corpus, drawn from all of it.")] = 400,
    first: Annotated[bool, typer.Option("--first", help="Take the first documents instead of a draw.")] = False,
    layers: Annotated[str, typer.Option(help="Layers to take, such as 0,6,12 or 0-3 or -1.")] = "-1",
    pooling: Annotated[str, typer.Option(help="One vector a document: first, mean, last or max.")] = "mean",
    max_tokens: Annotated[int, typer.Option(help="Read so many tokens of a document.")] = 128,
    projections: Annotated[str, typer.Option(help="Which of pca, tsne, umap to make; none.")] = "pca,tsne,umap",
    permutations: Annotated[int, typer.Option(help="Relabellings; p is never below 1 over one more.")] = 999,
    seed: Annotated[int, typer.Option(help="Seed of draws, folds, relabellings and projections.")] = 0,
    device: Annotated[str, typer.Option(help="Where the model runs: cpu, cuda.")] = "cpu",
    dtype: Dtype = "float32",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what the folder holds.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print separations and summaries as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Compare corpora as clouds of document vectors, as they are and again at matched length."""
    from theodolite.cli.console import Printer, hush, result
    from theodolite.studies.clouds.clouds import clouds as measured
    from theodolite.studies.laboratory import check_free

    hush()
    check_free(out, "clouds", overwrite=overwrite)
    found = measured(
        model,
        corpora,
        limit=limit,
        first=first,
        layers=layers,
        pooling=pooling,
        max_tokens=max_tokens,
        projections=projections,
        permutations=permutations,
        seed=seed,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        listener=Printer(quiet=quiet),
    )
    folder = found.save(out, overwrite=overwrite)
    if json:
        result(encoder.dumps(_as_json(found, folder)))
        return
    _print(found)
    if not quiet:
        result(LEGEND)
    result(f"clouds: {folder}")


def _as_json(found: Findings, folder: Path) -> dict[str, Any]:
    from theodolite.cli.plain_json import plain_rows

    rows = {name: plain_rows(found.tables[name]) for name in ("separations", "summaries")}
    return {"clouds": str(folder), "corpora": found.facts["corpora"], "warnings": found.facts["warnings"], **rows}


def _print(found: Findings) -> None:
    from theodolite.cli.console import result
    from theodolite.cli.plain_table import print_rows

    settings = found.facts["settings"]
    result(f"{found.facts['model']['name']} · pooling: {settings['pooling']}")
    print_rows([_apart(row) for row in found.tables["separations"].to_dict("records")])
    print()
    print_rows([_spread(row) for row in found.tables["summaries"].to_dict("records")])


def _apart(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "layer": row["layer_name"],
        "lengths": row["lengths"],
        "corpus": row["corpus_a"],
        "and": row["corpus_b"],
        "n each": int(row["n"]),
        "tokens": f"{_number(row['tokens_a'], 1)}, {_number(row['tokens_b'], 1)}",
        "accuracy": _number(row["accuracy"]),
        "95%": f"[{_number(row['accuracy_low'])}, {_number(row['accuracy_high'])}]",
        "p": _number(row["accuracy_p"]),
        "energy": _number(row["energy_share"]),
        "p ": _number(row["energy_p"]),
        "by length": _number(row["length_accuracy"]),
        "": row["reason"],
    }


def _spread(row: dict[Any, Any]) -> dict[str, Any]:
    of = row["corpus_a"] if row["corpus_a"] == row["corpus_b"] else f"{row['corpus_a']} – {row['corpus_b']}"
    head = {
        "layer": row["layer_name"],
        "lengths": row["lengths"],
        "what": row["metric"],
        "of": of,
        "n": int(row["n"]),
    }
    return head | {name: _number(row[name]) for name in ("mean", "sd", "smallest", "largest", "negative")}


def _number(value: float, digits: int = 3) -> str:
    return "–" if value != value else f"{value:.{digits}f}"
