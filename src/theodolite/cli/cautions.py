"""theodolite cautions: how projections distort shapes whose geometry is known."""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Quiet
from theodolite.cli.study_options import Overwrite, ResultsFolder
from theodolite.text import format_fixed

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings

LEGEND = (
    "gap: smallest distance between the two circles, divided by their mean radius. roundness: smallest divided "
    "by largest distance of a circle's points from its centre; 1 is a circle, 0 a line segment. In three "
    "dimensions the circles are linked, so no planar projection can keep both the gap and the roundness without "
    "breaking a circle."
)


def cautions(
    out: ResultsFolder,
    seed: Annotated[int, typer.Option(help="Seed for the cubes, t-SNE and UMAP.")] = 0,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Project known shapes (two linked circles, three cubes, sinusoidal positions) and measure the distortions."""
    from theodolite.cli.console import Printer, print_result
    from theodolite.cli.output import print_rows
    from theodolite.studies.cautions import cautions as made

    found = made(out=out, seed=seed, overwrite=overwrite, listener=Printer(quiet=quiet))
    if json:
        print_result(encoder.dumps(_as_json(found, out)))
        return
    print_rows([_row(row) for row in found.tables["hopf_facts"].to_dict("records")])
    if not quiet:
        print_result(LEGEND)
    print_result(f"cautions: {out}")


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    linked = row["linking_number"]
    settings = {"t-SNE": f"perplexity {row['setting']}", "UMAP": f"{row['setting']} neighbours"}
    return {
        "projection": {"space": "none (3 dimensions)"}.get(row["method"], row["method"]),
        "settings": settings.get(row["method"], ""),
        "gap": f"{row['gap']:.3f}",
        "roundness": f"{row['roundness_1']:.2f}, {row['roundness_2']:.2f}",
        "linking number": format_fixed(abs(linked)),
    }


def _as_json(found: Findings, folder: Path) -> dict[str, Any]:
    from theodolite.cli.output import to_json_rows

    tables = {name: to_json_rows(found.tables[name]) for name in ("hopf_facts", "hopf_shares", "cubes")}
    return {"cautions": str(folder), **tables}
