"""theodolite merge: combine surveys of different documents, bridges, or parts of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import Overwrite, Quiet


def merge(
    surveys: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of surveys, or of bridges, of the same models with the same settings; or of parts of a "
            "vector store."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the merged results.")],
    overwrite: Overwrite = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the layers, or the answers of a store, as JSON.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Merge surveys, or bridges, of different documents into one, as if the documents had been read together.

    Merging the parts of one corpus (--part) gives the same sample of vectors as a single survey. Merging surveys
    of different files gives another sample, so measures that use the sample, such as TwoNN, differ slightly.
    Results of `theodolite bridge` are merged if all of them were made with --keep-sums. Results of `theodolite
    store` are merged without near duplicates, hubs and costs, which need a search of the whole store.
    """
    from theodolite.api.store import merge_stores
    from theodolite.cli.bridge import finish_bridge
    from theodolite.cli.console import Printer
    from theodolite.cli.output import finish_survey
    from theodolite.cli.store import print_answers
    from theodolite.stores.results import FACTS
    from theodolite.studies.bridge.merging import is_bridge, merge_bridges
    from theodolite.surveys.merge import merge as run

    if any(is_bridge(folder) for folder in surveys):
        found = merge_bridges(surveys, out=out, overwrite=overwrite, listener=Printer(quiet=quiet))
        finish_bridge(found, out, as_json=json, quiet=quiet)
        return
    if any((folder / FACTS).is_file() for folder in surveys):
        print_answers(merge_stores(surveys, out, overwrite=overwrite), as_json=json)
        return
    with Printer(quiet=quiet).listening() as printer:
        made = run(list(surveys), out=out, overwrite=overwrite, listener=printer)
    finish_survey(made, as_json=json, quiet=quiet)
