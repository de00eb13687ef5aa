"""theodolite cautions: shapes whose geometry is known, and what projections make of them."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Quiet

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings

LEGEND = (
    "gap: the nearest that the circles come to each other, over their mean radius. roundness: least over largest "
    "distance of a circle's points from its middle; 1 is a circle, 0 a segment. In space the circles are linked "
    "once, so nothing flat can have both the gap and the roundness without tearing them apart."
)


def cautions(
    out: Annotated[Path, typer.Option(help="Folder for what is made.")],
    seed: Annotated[int, typer.Option(help="Seed of the cubes, of t-SNE and of UMAP.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what the folder holds.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Make the Hopf link, three cubes and sinusoidal positions, to see what projections do to known shapes."""
    from theodolite.cli.console import Printer, result
    from theodolite.cli.plain_table import print_rows
    from theodolite.studies.cautions.laboratory import LABORATORY
    from theodolite.studies.cautions.laboratory import cautions as made
    from theodolite.studies.laboratory import check_free

    check_free(out, LABORATORY, overwrite=overwrite)
    found = made(seed=seed, listener=Printer(quiet=quiet))
    folder = found.save(out, overwrite=overwrite)
    if json:
        result(encoder.dumps(_as_json(found, folder)))
        return
    print_rows([_row(row) for row in found.tables["hopf_facts"].to_dict("records")])
    if not quiet:
        result(LEGEND)
    result(f"cautions: {folder}")


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    linked = row["linking_number"]
    settings = {"t-SNE": f"perplexity {row['setting']}", "UMAP": f"{row['setting']} neighbours"}
    return {
        "projection": {"space": "none (3 dimensions)"}.get(row["method"], row["method"]),
        "settings": settings.get(row["method"], ""),
        "gap": f"{row['gap']:.3f}",
        "roundness": f"{row['roundness_1']:.2f}, {row['roundness_2']:.2f}",
        "linking number": "–" if linked != linked else f"{abs(linked):.3f}",
    }


def _as_json(found: Findings, folder: Path) -> dict[str, Any]:
    from theodolite.cli.plain_json import plain_rows

    tables = {name: plain_rows(found.tables[name]) for name in ("hopf_facts", "hopf_shares", "cubes")}
    return {"cautions": str(folder), **tables}
