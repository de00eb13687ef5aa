"""docs/reference-models.md, and the reference ranges of the report, from the table of all surveys."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import product
from typing import Any

import pandas as pd

from manual.reference_surveys import CHARACTERS, COMMAND, EXCERPTS, ROOT, read_reference_table
from manual.reference_surveys import TABLE as EVERY_LAYER
from theodolite.report.references import FILE, KINDS, MEASURES, find_reference, measure_span, read_table
from theodolite.report.tables import Tables

TABLE = ROOT / "src/theodolite/report/assets" / FILE
POPULATIONS = ("all", "without-sinks")
VERSIONS = ("date", "theodolite", "torch", "transformers")


def write_ranges() -> None:
    """Write the ranges, and renew the page."""
    rows = list_ranges(read_reference_table())
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    read_table.cache_clear()
    (ROOT / "docs/reference-models.md").write_text(page(), encoding="utf-8")
    print(f"{len(rows)} rows: {TABLE.relative_to(ROOT)}")


def list_ranges(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one row per survey, population and measure; measures that are undefined have no row."""
    rows = []
    for _, part in table.groupby(["model", "corpus"], sort=False):
        first, tables = part.iloc[0], Tables("", {}, part, pd.DataFrame(), pd.DataFrame())
        for population, each in product(POPULATIONS, MEASURES):
            span = measure_span(tables, population, each)
            if span is None or not first["kind"]:
                continue
            rows.append({
                "kind": first["kind"], "model": first["model"], "corpus": first["corpus"],
                "documents": str(first["documents"]), "positions": str(part["n"].max()),
                "coordinates": str(part["dim"].max()), "population": population, "measure": each.key,
                "lowest": f"{span.low:.4g}", "lowest_layer": span.low_place,
                "highest": f"{span.high:.4g}", "highest_layer": span.high_place,
                **{name: first[name] for name in VERSIONS},
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
TwoNN dimension, rounded to two digits like the range. If the survey has a standard error of the value, it is
outside only if its 95% interval is. Effective ranks of fewer than ten vectors per coordinate
are left out, because the number of vectors bounds them.

Every model of the catalogue reads every corpus of its kind. Of a text corpus it reads {excerpts} excerpts of
{characters:,} characters, one per document, so that errors by documents are known. Units are surface forms.
The table of every layer, in four populations, with standard errors, is [`{table}`]({link}); its columns
are those of [`layers.parquet`](survey-folder.md). [The sink study](sinks.md) and [the claims of the
papers](claims.md) are made from the same surveys.
"""


def page() -> str:
    """Return docs/reference-models.md."""
    rows = read_table()
    date, ours, torch, transformers = (", ".join(sorted({row[name] for row in rows})) for name in VERSIONS)
    path = EVERY_LAYER.relative_to(ROOT)
    head = HEAD.format(
        excerpts=EXCERPTS, characters=CHARACTERS, table=path.name, link=path.relative_to("docs").as_posix()
    )
    lines = [
        head,
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
