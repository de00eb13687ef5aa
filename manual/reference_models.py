"""python -m manual.reference_models FOLDER: survey models of the catalogue and write their reference ranges.

The surveys are written to FOLDER. The table is data of the report, and docs/reference-models.md shows it.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.report.references import FILE, KINDS, MEASURES, find_kind, find_reference, measure_span, read_table
from theodolite.report.tables import Tables

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src/theodolite/report/assets" / FILE
POPULATIONS = ("all", "without-sinks")
COMMAND = "python -m manual.reference_models build/reference-models"


@dataclass(frozen=True)
class Run:
    """One survey: a model of the catalogue, a corpus and a limit of documents."""

    model: str
    corpus: str
    limit: int


RUNS = (
    Run("minilm-l6", "chitchat", 75),
    Run("minilm-l6", "enwik8-clean", 15),
    Run("antiberty", "gallery/antibodies.txt", 12),
    Run("smollm2-135m", "chitchat", 25),
    Run("smollm2-135m", "enwik8-clean", 3),
    Run("whisper-tiny-en", "speech", 6),
)


def main() -> None:
    """Run the surveys, write the table, and renew the page."""
    parser = argparse.ArgumentParser(prog="python -m manual.reference_models", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the surveys, which are made again")
    folder = parser.parse_args().folder
    rows = [row for run in RUNS for row in measure(run, folder)]
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    read_table.cache_clear()
    (ROOT / "docs/reference-models.md").write_text(page(), encoding="utf-8")
    print(f"{len(rows)} rows: {TABLE.relative_to(ROOT)}")


def measure(run: Run, folder: Path) -> list[dict[str, Any]]:
    """Return one row per population and measure of a survey."""
    import theodolite

    corpus = str(ROOT / run.corpus) if "/" in run.corpus else run.corpus
    out = folder / f"{run.model}-{Path(run.corpus).stem}"
    survey = theodolite.survey(run.model, corpus, limit=run.limit, out=out, overwrite=True)
    print(f"surveyed: {out}")
    return list_rows(Tables(run.model, survey.facts, survey.layers, pd.DataFrame(), pd.DataFrame()), run)


def list_rows(tables: Tables, run: Run) -> list[dict[str, Any]]:
    """Return the rows of the table for one survey; measures that are undefined have no row."""
    rows = []
    for population in POPULATIONS:
        for each in MEASURES:
            span = measure_span(tables, population, each)
            if span is None:
                continue
            rows.append({
                "kind": find_kind(tables.facts), "model": run.model, "corpus": Path(run.corpus).name,
                "documents": tables.facts["corpus"]["documents"], "positions": int(tables.layers["n"].max()),
                "coordinates": int(tables.layers["dim"].max()), "population": population, "measure": each.key,
                "lowest": f"{span.low:.4g}", "lowest_layer": span.low_place,
                "highest": f"{span.high:.4g}", "highest_layer": span.high_place,
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
                **{name: version(name) for name in ("theodolite", "torch", "transformers")},
            })  # fmt: skip
    return rows


HEAD = """\
# Reference models

The report compares a survey with models that were measured with the same program. There are few of them, so a
range says what these models do, not what is normal: a value outside it is called *high* or *low*, and one within
it *usual*. A survey of one of these models that is within the range is marked *reference model*, because the range
contains it by definition. A survey is compared with models of the same kind, over the same population. Other kinds
of model, and vectors of a file, are not compared.

The range of a measure goes from its lowest to its highest value over the layers of all models of a kind. A survey
is judged by its highest mean cosine, its lowest effective rank as a share of the coordinates, and its highest
TwoNN dimension, rounded to two digits like the range. Effective ranks of fewer than ten vectors per coordinate
are left out, because the number of vectors bounds them.
"""


def page() -> str:
    """Return docs/reference-models.md."""
    rows = read_table()
    date, ours, torch, transformers = (
        ", ".join(sorted({row[name] for row in rows})) for name in ("date", "theodolite", "torch", "transformers")
    )
    lines = [
        HEAD,
        *_render("Ranges", ("kind", "population", "measure", "range", "models"), _list_ranges()),
        *_render("Surveys", ("model", "corpus", "positions", "measure", "lowest", "highest"), _list_surveys()),
        f"The second table is for the population `all`; `{TABLE.relative_to(ROOT)}` also has `without-sinks`.",
        "",
        f"Measured on {date} with Theodolite {ours}, PyTorch {torch} and transformers {transformers}, by",
        "",
        "<!-- not run: it takes minutes, and renews this page -->",
        f"```sh\n{COMMAND}\n```\n",
    ]
    return "\n".join(lines)


def _list_ranges() -> list[list[str]]:
    found = []
    for kind, population, each in product(KINDS, POPULATIONS, MEASURES):
        span = find_reference(kind, population, each.key)
        if span:
            names = ", ".join(f"`{name}`" for name in span.models)
            ends = f"{each.format(span.low)} to {each.format(span.high)}"
            found.append([KINDS[kind], f"`{population}`", each.label, ends, names])
    return found


def _list_surveys() -> list[list[str]]:
    known = {each.key: each for each in MEASURES}
    found = []
    for row in read_table():
        if row["population"] == "all":
            each = known[row["measure"]]
            ends = [f"{each.format(float(row[end]))} {row[f'{end}_layer']}" for end in ("lowest", "highest")]
            text = f"{row['corpus']}, {int(row['documents']):,} documents"
            found.append([f"`{row['model']}`", text, f"{int(row['positions']):,}", each.label, *ends])
    return found


def _render(title: str, heads: Sequence[str], rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]
    return [f"## {title}", "", *lines, ""]


if __name__ == "__main__":
    main()
