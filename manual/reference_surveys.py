"""python -m manual.reference_surveys FOLDER: survey every model of the catalogue and write the reference table.

The surveys are written to FOLDER; those that are there are read. docs/tables/reference-models.csv has every layer
and population of them. The ranges of the report, docs/reference-models.md and docs/claims.md are made from it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import linregress

from theodolite.corpora.catalogue.entries import MODELS
from theodolite.corpora.text_corpus import open_corpus
from theodolite.measures.unit_fits import bootstrap_errors, coefficient_of_variation, fit_line
from theodolite.report.references import find_kind
from theodolite.studies.differences import difference_error, estimates_by_group
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs/tables/reference-models.csv"
COMMAND = "python -m manual.reference_surveys build/reference-models"

CORPORA = {"text": ("chitchat", "shakespeare", "enwik8-clean"), "speech": ("speech",)}
"""The corpora of each kind of model in the catalogue; models of any other kind read pictures."""
OTHERS = ("pictures",)
OWN = {"antiberty": ("gallery/antibodies.txt",)}
"""Models that read a language of their own."""
EXCERPTS, CHARACTERS = 60, 1600
"""Documents of a text corpus, and characters of each: many short documents give errors, a few long ones none."""

RATIOS = {
    "m_of_q": ("m", "q"),
    "text_m_of_q": ("text_m", "text_q"),
    "text_v_within_of_v": ("text_v_within", "text_v"),
}
"""Columns of the table that layers.parquet has as two columns and the error of their ratio."""
RISES = ("mean_cosine", "text_m_of_q", "text_v_within_of_v")
"""Columns whose difference from the first layer is in the table too."""
COLUMNS = (
    "n", "dim", "massive", "norm_p50", "norm_max", "q", "q_se", "m", "m_of_q", "m_of_q_se",
    "mean_cosine", "mean_cosine_se", "anisotropy_svd", "effective_rank", "twonn", "twonn_se",
    "self_similarity", "self_similarity_se", "text_units_used", "text_q_cv", "text_q_cv_se",
    "text_tradeoff_slope", "text_tradeoff_slope_se", "text_tradeoff_r2", "text_tradeoff_r2_se",
    "text_m_of_q", "text_m_of_q_se", "text_v_within_of_v", "text_v_within_of_v_se",
    *(f"{name}_rise{ending}" for name in RISES for ending in ("", "_se")),
    "q_on_log_n", "q_on_log_n_se", "m_on_log_n", "m_on_log_n_se", "v_on_log_n", "v_on_log_n_se",
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One survey: a model, its kind in the catalogue, and a corpus."""

    model: str
    kind: str
    corpus: str
    source: str = ""  # what is surveyed under the name of the model, if it is not in the catalogue

    def folder(self, folder: Path) -> Path:
        """Return the folder of the survey."""
        return folder / f"{self.model}-{Path(self.corpus).stem}"


def list_runs() -> list[Run]:
    """Return every model of the catalogue with every corpus of its kind."""
    return [
        Run(entry.name, entry.kind, corpus)
        for entry in MODELS.values()
        for corpus in OWN.get(entry.name, CORPORA.get(entry.kind, OTHERS))
    ]


def main() -> None:
    """Run the surveys that are missing, and write the table and the pages that are made from it."""
    parser = argparse.ArgumentParser(prog="python -m manual.reference_surveys", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the surveys; those that it has are not made again")
    folder = parser.parse_args().folder
    rows = pd.concat([tabulate(run, folder) for run in list_runs()])
    rows.to_csv(TABLE, index=False, float_format="%.6g", lineterminator="\n")
    print(f"{len(rows):,} rows: {TABLE.relative_to(ROOT)}")

    from manual.reference_models import write_ranges

    write_ranges()


def tabulate(run: Run, folder: Path) -> pd.DataFrame:
    """Return the rows of the table for one survey, which is made if it is missing."""
    made = make_survey(run, folder)
    tokens, units = (made.tokens, made.units) if run.kind == "text" else (None, None)
    read = read_survey_data(run.folder(folder), ["layers", "jackknife"])
    return list_rows(made.facts, measure_rises(made.layers, read), run, fit_units(tokens, units))


def make_survey(run: Run, folder: Path, **other: Any) -> Any:
    """Open the survey of a run, which is made if it is missing, with `other` options."""
    import theodolite

    out = run.folder(folder)
    if not (out / "survey.json").is_file():
        options = {"units": "surface", "contextuality": True} if run.kind == "text" else {}
        options |= other
        theodolite.survey(run.source or run.model, find_corpus(run, folder), out=out, resume=True, **options)
        print(f"surveyed: {out}", flush=True)
    return theodolite.open(out)


def find_corpus(run: Run, folder: Path) -> str:
    """Return what a survey reads: a corpus of the catalogue, a file of the repository, or excerpts of text."""
    if "/" in run.corpus:
        return str(ROOT / run.corpus)
    if run.kind != "text":
        return run.corpus
    path = folder / f"{run.corpus}.jsonl"
    if not path.is_file():
        write_excerpts((text for _, text in open_corpus(run.corpus).documents()), path)
    return str(path)


def write_excerpts(texts: Iterable[str], path: Path) -> None:
    """Write one excerpt of each of EXCERPTS documents that are long enough, evenly spaced in the corpus."""
    long = [text for text in texts if len(text) >= CHARACTERS]
    if len(long) < EXCERPTS:
        raise SystemExit(f"{path} requires {EXCERPTS} documents of {CHARACTERS:,} characters (got {len(long)}).")
    chosen = [long[round(place * (len(long) - 1) / (EXCERPTS - 1))] for place in range(EXCERPTS)]
    lines = [json.dumps({"text": excerpt(text)}, ensure_ascii=False) + "\n" for text in chosen]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


def excerpt(text: str, characters: int = CHARACTERS) -> str:
    """Return some characters of a text, from the first line that starts after a third of what may be left out.

    The start of a text is often a title, a list of persons or a formula. A word at the end may be cut.

    >>> excerpt("Title\\nFirst line\\nSecond line\\nThird", 16)
    'Second line\\nThir'
    """
    spare = len(text) - characters
    start = text.find("\n", spare // 3, spare) + 1
    return text[start or max(spare, 0) // 3 :][:characters]


def measure_rises(layers: pd.DataFrame, survey: SurveyData) -> pd.DataFrame:
    """Return the layers with the difference of RISES from the first layer, and its error, paired by documents."""
    found = layers.assign(**dict(_ratios(layers)))
    for column, population in product(RISES, dict.fromkeys(layers["population"])):
        rows = found.index[found["population"] == population]
        estimates = estimates_by_group(survey, str(population), column)
        numbers, values = found.loc[rows, "layer"], found.loc[rows, column]
        found.loc[rows, f"{column}_rise"] = values - values.iloc[0]
        errors = [difference_error(estimates.get(numbers.iloc[0]), estimates.get(layer)) for layer in numbers]
        found.loc[rows, f"{column}_rise_se"] = errors
    return found


def fit_units(tokens: pd.DataFrame | None, units: pd.DataFrame | None) -> pd.DataFrame:
    """Return fits over units by layer and population: those of the figures 4 and 7 of norm-variance.

    The units have 10 <= n <= 100,000 and are not special. The slopes of Q, M and V on log10 n are divided by the
    mean of Q. Errors are by bootstrap over units, those of the slopes on log10 n by least squares.
    """
    if tokens is None or units is None:
        return pd.DataFrame()
    special = set(units.loc[units["special"], "unit"])
    used = tokens[tokens["n"].between(10, 100_000) & ~tokens["unit"].isin(special)]
    rows = []
    for (layer, population), part in used.groupby(["layer", "population"], sort=False):
        m, v, q = (part[name].to_numpy(np.float64) for name in ("m", "v", "q"))
        if len(part) < 3:
            continue
        line, errors = fit_line(m, v), bootstrap_errors(m, v)
        row: dict[str, Any] = {"layer": layer, "population": population, "text_q_cv": coefficient_of_variation(q)}
        row |= {"text_tradeoff_slope": line.slope, "text_tradeoff_r2": line.r2}
        row |= {f"text_{name}": error for name, error in errors.items()}
        for name, values in (("q", q), ("m", m), ("v", v)):
            fit = linregress(np.log10(part["n"]), values / q.mean())
            row |= {f"{name}_on_log_n": fit.slope, f"{name}_on_log_n_se": fit.stderr}
        rows.append(row)
    return pd.DataFrame(rows)


def list_rows(
    facts: dict[str, Any], layers: pd.DataFrame, run: Run, fits: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return one row per layer and population of a survey."""
    if fits is not None and len(fits):
        layers = layers.merge(fits, how="left", on=["layer", "population"])
    stacks = {layer["index"]: layer.get("stack", "") for layer in facts["layers"]}
    table = layers.assign(
        kind=find_kind(facts) or facts["model"].get("modality", ""),
        model=run.model, corpus=Path(run.corpus).name, stack=layers["layer"].map(stacks),
        documents=facts["corpus"]["documents"],
        units=facts["settings"].get("units"), causal=facts["model"].get("causal"),
        norm_placement=facts["model"].get("norm_placement"),
        date=facts["times"]["finished"][:10],
        **{name: facts["versions"][name] for name in ("theodolite", "torch", "transformers")},
    )  # fmt: skip
    first = ("kind", "model", "corpus", "documents", "units", "layer", "layer_name", "stack", "population")
    last = ("causal", "norm_placement", "date", "theodolite", "torch", "transformers")
    return table[[*first, *(name for name in COLUMNS if name in table), *last]]


def _ratios(layers: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    for name, (part, whole) in RATIOS.items():
        yield name, layers[part] / layers[whole]


def read_reference_table() -> pd.DataFrame:
    """Return docs/tables/reference-models.csv."""
    return pd.read_csv(TABLE, keep_default_na=False, na_values=[""])


if __name__ == "__main__":
    main()
