"""python -m manual.sinks FOLDER: measure sinks in the surveys of the reference table, and draw docs/sinks.md.

FOLDER is that of `python -m manual.reference_surveys`; surveys that are missing are made. The tables of each
survey are kept in FOLDER, so that the command can be interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from manual.reference_surveys import CORPORA, ROOT, Run, find_corpus, list_runs, make_survey, write_excerpts
from manual.sinks.figures import draw_all
from manual.sinks.page import TABLES, THRESHOLDS, page
from manual.sinks.reading import SinkTables, measure_survey, measure_thresholds
from manual.sinks.second_pass import measure_corpus
from theodolite.corpora.text_corpus import open_corpus

COMMAND = "python -m manual.sinks build/reference-models"
DOCUMENTS = 20
"""Excerpts of a corpus without a survey: all states of a model on them are in memory."""


def main() -> None:
    """Measure, write the tables, draw the figures and renew the page."""
    parser = argparse.ArgumentParser(prog="python -m manual.sinks", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the surveys and of the tables of each")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=MODEL", help="one more text model")
    parser.add_argument(
        "--corpus", action="append", default=[], metavar="NAME=CORPUS", help="one more text corpus, not surveyed"
    )
    parser.add_argument("--draw", action="store_true", help="only draw the figures, from the tables in docs/")
    given = parser.parse_args()
    if not given.draw:
        models, corpora = (dict(one.split("=", 1) for one in several) for several in (given.model, given.corpus))
        runs = find_runs(models, corpora)
        for name, corpus in corpora.items():
            if not (given.folder / f"{name}.jsonl").is_file():
                texts = (text for _, text in open_corpus(corpus).documents())
                write_excerpts(texts, given.folder / f"{name}.jsonl")
        surveyed = {run.model: run for run in reversed(runs)}
        found = []
        for run in runs:
            tables = tabulate(run, given.folder, surveyed[run.model] if run.corpus in corpora else None)
            found.append([table.assign(model=run.model, corpus=_name(run)) for table in tables])
        for parts, path in zip(zip(*found, strict=True), TABLES.values(), strict=True):
            write_table(parts, path)
        names = {run: {"model": run.model, "corpus": _name(run)} for run in runs if run.corpus not in corpora}
        decoders = [run for run in names if make_survey(run, given.folder).facts["model"]["causal"]]
        parts = [measure_thresholds(run.folder(given.folder)).assign(**names[run]) for run in decoders]
        write_table(parts, THRESHOLDS)
    draw_all()
    (ROOT / "docs/sinks.md").write_text(page(), encoding="utf-8")


def write_table(parts: Sequence[pd.DataFrame], path: Path) -> None:
    """Write the rows of all models and corpora to one file."""
    table = pd.concat([part for part in parts if len(part)])
    table = table[["model", "corpus", *table.columns.drop(["model", "corpus"])]]
    table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
    print(f"{len(table):,} rows: {path.relative_to(ROOT)}")


def find_runs(models: dict[str, str], corpora: dict[str, str]) -> list[Run]:
    """Return the surveys of text: those of the reference table, and those with further models and corpora."""
    known = [run for run in list_runs() if run.kind == "text"]
    readers = dict.fromkeys(run.model for run in known if run.corpus in CORPORA["text"])
    more = [Run(model, "text", corpus) for model in readers for corpus in corpora]
    others = [Run(name, "text", corpus, source) for name, source in models.items() for corpus in CORPORA["text"]]
    return [*known, *more, *others]


def _name(run: Run) -> str:
    return Path(run.corpus).name


def tabulate(run: Run, folder: Path, first: Run | None = None) -> SinkTables:
    """Return the tables of a survey, or of a model on a corpus without one, measured if they are missing.

    `first` is the survey of the same model that says which norms are massive on a corpus without a survey.
    """
    files = [folder / "sinks" / f"{run.folder(folder).name}-{kind}.csv" for kind in SinkTables._fields]
    if not all(path.is_file() for path in files):
        make_survey(first or run, folder)
        print(f"measuring: {run.folder(folder)}", flush=True)
        if first is None:
            tables = measure_survey(run.folder(folder))
        else:
            tables = measure_corpus(first.folder(folder), find_corpus(run, folder), DOCUMENTS)
        files[0].parent.mkdir(exist_ok=True)
        for path, table in zip(files, tables, strict=True):
            table.to_csv(path, index=False)
    return SinkTables(*(pd.read_csv(path, keep_default_na=False, na_values=[""]) for path in files))


if __name__ == "__main__":
    main()
