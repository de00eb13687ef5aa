"""Options that several verbs share, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def on_disk(context: typer.Context, given: Path | None) -> Path | None:
    """Refuse the address of a bucket for what a verb writes on disk, before anything is read."""
    if given is None:
        return None
    from theodolite.surveys.storage import on_disk as checked

    return checked(given, str(context.info_name))


Layers = Annotated[str | None, typer.Option(help="Layers to take, such as 0,6,12 or 0-3 or -1. Default: all.")]
Field = Annotated[str, typer.Option(help="Field of a .jsonl that holds the text.")]
Column = Annotated[str, typer.Option(help="Column of a .parquet that holds the text.")]
MinWords = Annotated[int | None, typer.Option(help="Keep documents of at least so many words.")]
MaxWords = Annotated[int | None, typer.Option(help="Keep documents of fewer words than this.")]
Share = Annotated[float | None, typer.Option(help="Keep this fraction of the documents, chosen by hash.")]
Seed = Annotated[int, typer.Option(help="Seed of --sample.")]
Limit = Annotated[int | None, typer.Option(help="Keep the first so many documents that the filters keep.")]
MaxTokens = Annotated[
    int | None,
    typer.Option(help="Cut documents into windows of so many tokens. Default: 512 or the model's limit."),
]
BatchTokens = Annotated[int | None, typer.Option(help="Tokens a batch, padding included.")]
Populations = Annotated[str, typer.Option(help="Which of all, without-first, without-massive to tell.")]
SampleSize = Annotated[int, typer.Option(help="Vectors kept whole, a layer and cell.")]
Memory = Annotated[str | None, typer.Option(help="Refuse to need more than this, such as 8G.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1. Default: a GPU if there is one.")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
Revision = Annotated[str | None, typer.Option(help="Revision of a hub model.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Let a model run the Python code that it brings.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress.")]
