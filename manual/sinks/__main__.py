"""python -m manual.sinks FOLDER: measure sinks in the surveys of the reference table, and draw docs/sinks.md.

FOLDER is that of `python -m manual.reference_surveys`; surveys that are missing are made. The tables of each
survey are kept in FOLDER, so that the command can be interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from manual.reference_surveys import CORPORA, ROOT, Run, list_runs, make_survey, write_excerpts
from manual.sinks.figures import draw_all
from manual.sinks.page import PAGE, page
from manual.sinks.reading import SinkTables, measure_survey
from manual.sinks.tables import TABLES
from manual.sinks.writes import PARTS, measure_writes
from theodolite.corpora.text_corpus import open_corpus
from theodolite.models.layers import RESIDUAL

COMMAND = "python -m manual.sinks build/reference-models"
WRITTEN = (Run("smollm2-135m", "text", "chitchat"),)
"""Models with sinks, and what they read to find the part of a block that writes them."""
DOCUMENTS, SAMPLE = 6, 256
"""Documents of a survey of streams, which has three times as many layers, and its sample beside all sinks."""


def main() -> None:
    """Measure, write the tables, draw the figures and renew the page."""
    parser = argparse.ArgumentParser(prog="python -m manual.sinks", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the surveys and of the tables of each")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=MODEL", help="one more text model")
    parser.add_argument("--corpus", action="append", default=[], metavar="NAME=CORPUS", help="one more corpus")
    parser.add_argument("--draw", action="store_true", help="only draw the figures, from the tables in docs/")
    given = parser.parse_args()
    if not given.draw:
        models, corpora = (dict(one.split("=", 1) for one in several) for several in (given.model, given.corpus))
        for name, corpus in corpora.items():
            if not (given.folder / f"{name}.jsonl").is_file():
                texts = (text for _, text in open_corpus(corpus).documents())
                write_excerpts(texts, given.folder / f"{name}.jsonl")
        found = [tabulate(run, given.folder) for run in find_runs(models, corpora)]
        for kind, parts in zip(SinkTables._fields, zip(*found, strict=True), strict=True):
            write_table(parts, TABLES[kind])
        write_table([tabulate_writes(run, given.folder) for run in WRITTEN], TABLES["writes"])
    draw_all()
    PAGE.write_text(page(), encoding="utf-8")


def write_table(parts: Sequence[pd.DataFrame], path: Path) -> None:
    """Write the rows of all models and corpora to one file."""
    table = pd.concat([part for part in parts if len(part)])
    table.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")
    print(f"{len(table):,} rows: {path.relative_to(ROOT)}")


def find_runs(models: dict[str, str], corpora: dict[str, str]) -> list[Run]:
    """Return the surveys of text: those of the reference table, and those with further models and corpora."""
    known = [run for run in list_runs() if run.kind == "text"]
    readers = dict.fromkeys(run.model for run in known if run.corpus in CORPORA["text"])
    more = [Run(model, "text", corpus) for model in readers for corpus in corpora]
    others = [Run(name, "text", corpus, source) for name, source in models.items() for corpus in CORPORA["text"]]
    found = [*known, *more, *others]
    order = list(dict.fromkeys(run.model for run in found))
    return sorted(found, key=lambda run: order.index(run.model))


def tabulate(run: Run, folder: Path) -> SinkTables:
    """Return the tables of a survey, measured if they are missing."""

    def measure() -> SinkTables:
        make_survey(run, folder)
        return measure_survey(run.folder(folder))

    return SinkTables(*_keep(run, folder, SinkTables._fields, measure))


def tabulate_writes(run: Run, folder: Path) -> pd.DataFrame:
    """Return what the parts of each block write to sinks, measured if it is missing."""

    def measure() -> list[pd.DataFrame]:
        of_streams = folder / "streams"
        streams = {"streams": [RESIDUAL, *PARTS], "limit": DOCUMENTS, "sample_size": SAMPLE}
        make_survey(run, of_streams, units="none", contextuality=False, **streams)
        return [measure_writes(run.folder(of_streams))]

    (found,) = _keep(run, folder, ["writes"], measure)
    return found


def _keep(
    run: Run, folder: Path, kinds: Sequence[str], measure: Callable[[], Sequence[pd.DataFrame]]
) -> list[pd.DataFrame]:
    """Return tables of a run from their files, which are written first if one is missing."""
    files = [folder / "sinks" / f"{run.folder(folder).name}-{kind}.csv" for kind in kinds]
    if not all(path.is_file() for path in files):
        print(f"measuring: {', '.join(path.stem for path in files)}", flush=True)
        tables = measure()
        files[0].parent.mkdir(exist_ok=True)
        for path, table in zip(files, tables, strict=True):
            named = table.assign(model=run.model, corpus=Path(run.corpus).name)
            named[["model", "corpus", *table.columns]].to_csv(path, index=False)
    return [pd.read_csv(path, keep_default_na=False, na_values=[""]) for path in files]


if __name__ == "__main__":
    main()
