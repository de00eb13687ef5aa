"""theodolite contrast: directions from sentence pairs, how they lie to each other, and how sure that is."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Dtype, Layers, Quiet, Revision, TrustRemoteCode

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings

LEGEND = (
    "cosine: of the two mean differences (second sentence minus first), [ ] 95% over pairs; p: sign flips, "
    "adjusted by Holm for all rows; least p: what so few pairs can reach; random: 95% of cosines between classes "
    "of random pairs. sure: not 0 by interval and adjusted p, and beyond random; hint: by p alone; small: not 0, "
    "but random pairs give as much; open: may be 0."
)


def contrast(
    model: Annotated[str, typer.Argument(help="Catalogue name, model folder, .gguf file or hub name.")],
    pairs: Annotated[
        Path, typer.Argument(metavar="PAIRS.json", help='{"class": [["one sentence", "the other"], ...], ...}.')
    ],
    out: Annotated[Path, typer.Option(help="Folder for what is found.")],
    layers: Layers = None,
    pooling: Annotated[str, typer.Option(help="One vector a sentence: first, mean, last or max.")] = "mean",
    matched: Annotated[
        bool, typer.Option("--matched", help="Leave out pairs whose sentences differ in punctuation.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of flips, resamples and random pairs.")] = 0,
    device: Annotated[str, typer.Option(help="Where the model runs: cpu, cuda.")] = "cpu",
    dtype: Dtype = "float32",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what the folder holds.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print classes and cosines of every layer as JSON.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Take the differences of sentence pairs at every layer: a bias audit that says how sure it is."""
    from theodolite.cli.console import Printer, hush, result
    from theodolite.studies.contrast.contrast import contrast as contrasted
    from theodolite.studies.laboratory import check_free

    hush()
    check_free(out, "contrast", overwrite=overwrite)
    found = contrasted(
        model,
        pairs,
        layers=layers,
        pooling=pooling,
        matched=matched,
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
    result(f"contrast: {folder}")


def _as_json(found: Findings, folder: Path) -> dict[str, Any]:
    from theodolite.cli.plain_json import plain_rows

    rows = {name: plain_rows(found.tables[name]) for name in ("classes", "cosines")}
    return {"contrast": str(folder), "warnings": found.facts["warnings"], **rows}


def _print(found: Findings) -> None:
    from theodolite.cli.console import result
    from theodolite.cli.plain_table import print_rows

    last = found.facts["layers"][-1]
    result(f"{found.facts['model']['name']} · {last['name']} · pooling: {found.facts['settings']['pooling']}")
    classes, cosines = (found.tables[name] for name in ("classes", "cosines"))
    print_rows([_class(row) for row in classes[classes["layer"] == last["index"]].to_dict("records")])
    if len(cosines):
        print()
        print_rows([_cosine(row) for row in cosines[cosines["layer"] == last["index"]].to_dict("records")])


def _class(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "class": row["class"],
        "pairs": int(row["n"]),
        "|difference|": _number(row["length"]),
        "|mean|": _number(row["length_of_mean"]),
        "agree": "–" if row["agree"] != row["agree"] else f"{row['agree']:.0%}",
        "p": _p(row["p"]),
        "adjusted": _p(row["p_holm"]),
        "least p": _p(row["smallest_p"]),
        "": row["reason"],
    }


def _cosine(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "class": row["class_a"],
        "and": row["class_b"],
        "cosine": _number(row["cosine"]),
        "95%": f"[{_number(row['low'])}, {_number(row['high'])}]",
        "p": _p(row["p"]),
        "adjusted": _p(row["p_holm"]),
        "least p": _p(row["smallest_p"]),
        "random": f"[{_number(row['reference_low'])}, {_number(row['reference_high'])}]",
        "verdict": row["verdict"],
    }


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.3f}"


def _p(value: float) -> str:
    return "–" if value != value else f"{value:.2g}"
