"""theodolite store: check the health of a vector store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from theodolite.cli.options import Overwrite, Quiet, Resume

if TYPE_CHECKING:
    from theodolite.cli.console import Printer
    from theodolite.stores.results import StoreResults


def store(
    source: Annotated[
        str,
        typer.Argument(
            help="The vectors: .npy, .npz, .parquet, .safetensors, .jsonl, .csv, .arrow, .fvecs, .fbin, "
            ".h5, a FAISS "
            "index, a LanceDB folder, qdrant:PATH#COLLECTION, postgresql://...#TABLE.COLUMN or hf:NAME."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results and report.html. Default: they are only printed.")
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(help="Real queries, embedded with the same model. Default: documents search for each other."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="An earlier state of the store, or one of another model, to compare with.")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Column read (label, id, ...) that names the document of a row, for --against."),
    ] = None,
    cost: Annotated[
        bool, typer.Option("--cost/--no-cost", help="Also search after transforms that make vectors smaller.")
    ] = True,
    transform: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TRANSFORM",
            help="Transform to try, such as centre+pca:128+int8; may be repeated. Default: usual ones.",
        ),
    ] = None,
    apply: Annotated[
        str | None,
        typer.Option(
            metavar="TRANSFORM",
            help="Only write the transformed vectors, and the transform for queries, to --out.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="cosine, dot or euclidean. Default: what the store declares, else cosine."),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column or array of the vectors, if the store has several.")
    ] = None,
    query_column: Annotated[str | None, typer.Option(help="The same for the queries.")] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column of the ids, or a .npy or .txt file with them.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(help="Column of labels, or a file.")] = None,
    text_column: Annotated[str | None, typer.Option(help="Column of the texts, or a file.")] = None,
    time_column: Annotated[str | None, typer.Option(help="Column of times, or a file.")] = None,
    packed: Annotated[str | None, typer.Option(help="What vectors in 8 bits mean: binary, int8 or uint8.")] = None,
    false_match_rate: Annotated[
        float, typer.Option(help="Share of random pairs that may exceed the threshold of a match.")
    ] = 0.001,
    near_duplicate: Annotated[
        float, typer.Option(help="Cosine from which two different vectors are near duplicates.")
    ] = 0.98,
    sample_size: Annotated[
        int, typer.Option(help="Rows kept for the distribution of scores, chosen by hash.")
    ] = 8192,
    query_count: Annotated[
        int, typer.Option(help="Documents, and queries, that are searched among all rows, chosen by hash.")
    ] = 4096,
    device: Annotated[
        str | None, typer.Option(help="Where to search: cpu, cuda, cuda:1, mps. Default: a GPU if there is one.")
    ] = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print the answers as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Check the health of a vector store: duplicates, hubs, which score means a match, what shrinking it costs."""
    from theodolite.api.store import store as run
    from theodolite.cli.console import Printer

    if apply is not None:
        _apply(
            source,
            apply,
            out,
            metric=metric,
            column=column,
            packed=packed,
            overwrite=overwrite,
            printer=Printer(quiet=quiet),
        )
        return
    with Printer(quiet=quiet).listening() as printer:
        made = run(
            source,
            queries=queries,
            against=against,
            groups=groups,
            cost=cost,
            transforms=transform,
            metric=metric,
            column=column,
            query_column=query_column,
            id_column=id_column,
            label_column=label_column,
            text_column=text_column,
            time_column=time_column,
            packed=packed,
            false_match_rate=false_match_rate,
            near_duplicate=near_duplicate,
            sample_size=sample_size,
            query_count=query_count,
            device=device,
            out=out,
            resume=resume,
            overwrite=overwrite,
            listener=printer,
        )
    print_answers(made, as_json=json)


def _apply(
    source: str,
    transform: str,
    out: Path | None,
    *,
    metric: str | None,
    column: str | None,
    packed: str | None,
    overwrite: bool,
    printer: Printer,
) -> None:
    """Write the vectors of a store after a transform."""
    from theodolite.cli.console import print_result
    from theodolite.errors import InputError
    from theodolite.stores.apply import TRANSFORM, VECTORS, apply_transform
    from theodolite.stores.reading import open_store

    if out is None:
        raise InputError("--apply requires --out, the folder for the transformed vectors.")
    reader = open_store(source, column=column, packed=packed, metric=metric)
    with printer.listening():
        made = apply_transform(reader, transform, out, metric=metric, overwrite=overwrite, listener=printer)
    print_result(f"vectors: {out / VECTORS} ({made.bytes:,} bytes each)\ntransform: {out / TRANSFORM}")


def print_answers(made: StoreResults, *, as_json: bool) -> None:
    """Print the answers to the questions about a store, as a table or as JSON."""
    from json import dumps

    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows, to_json_rows
    from theodolite.stores.results import REPORT

    if as_json:
        rows = to_json_rows(made.answers)
        print_result(dumps({"store": str(made.folder) if made.folder else None, "answers": rows}))
        return
    print_rows(
        [
            {"verdict": row["verdict"], "question": row["question"], "answer": row["sentence"]}
            for row in to_json_rows(made.answers)
        ]
    )
    if made.folder is not None:
        print_result(f"store: {made.folder}\nreport: {made.folder / REPORT}")
