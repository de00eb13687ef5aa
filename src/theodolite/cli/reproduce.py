"""theodolite reproduce: a whole paper on models and text of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import (
    Column,
    Device,
    Dtype,
    Field,
    Layers,
    Limit,
    MaxTokens,
    MaxWords,
    Quiet,
    Seed,
    Share,
)
from theodolite.cli.survey import Corpus


def reproduce(
    paper: Annotated[str, typer.Argument(help="The paper, such as norm-variance.")],
    model: Annotated[
        list[str],
        typer.Option(
            help="Catalogue name, folder, .gguf or hub name; once for each. MODEL=CORPUS for one that reads "
            "something of its own."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the surveys, the figures and the index page.")],
    corpus: Annotated[str | None, typer.Option(help=f"What models of text read: {Corpus}.")] = None,
    audio: Annotated[
        str | None, typer.Option(help="What models of speech read: a folder of .wav or .flac files, or speech.")
    ] = None,
    images: Annotated[
        str | None, typer.Option(help="What models of vision read: a folder of pictures, or pictures.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="A second corpus, where a paper compares two. Default: of the catalogue.")
    ] = None,
    series: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="Folder of `theodolite dynamics`, for figures by training step; several."
        ),
    ] = None,
    units: Annotated[
        str | None,
        typer.Option(help="What vectors are counted by: id, surface or word. Default: as the paper did."),
    ] = None,
    layers: Layers = None,
    field: Field = "text",
    column: Column = "text",
    max_words: MaxWords = None,
    sample: Share = None,
    seed: Seed = 0,
    limit: Limit = None,
    max_tokens: MaxTokens = None,
    wrap: Annotated[
        bool,
        typer.Option("--wrap", help="As the paper did: BOS and EOS around every window where none is added."),
    ] = False,
    contextuality: Annotated[
        bool | None,
        typer.Option(
            "--contextuality/--no-contextuality",
            help="Also tell self-similarity and its kin, which doubles the tables kept. Default: where the paper "
            "is of text alone, as norm-variance is.",
        ),
    ] = None,
    clean_words: Annotated[
        bool,
        typer.Option("--clean-words", help="As the paper did: surveys by word read words without punctuation."),
    ] = False,
    device: Device = None,
    dtype: Dtype = "float32",
    json: Annotated[bool, typer.Option("--json", help="Print what was drawn as JSON to stdout.")] = False,
    quiet: Quiet = False,
) -> None:
    """Repeat a paper: survey what is missing, draw all of its exhibits, write an index page."""
    import json as encoder

    from theodolite.cli.console import Printer, hush, result
    from theodolite.errors import TheodoliteError
    from theodolite.reproduction.reproduce import reproduce as run

    hush()
    options = {
        "layers": layers,
        "field": field,
        "column": column,
        "max_words": max_words,
        "sample": sample,
        "seed": seed,
        "limit": limit,
        "max_tokens": max_tokens,
        "wrap": wrap,
        "clean_words": clean_words,
        "contextuality": contextuality,
        "device": device,
        "dtype": dtype,
    }
    with Printer(quiet=quiet).listening() as printer:
        made = run(
            paper,
            model,
            corpus,
            out,
            audio=audio,
            images=images,
            against=against,
            series=series or (),
            units=units,
            options=options,
            listener=printer,
        )
    if json:
        result(encoder.dumps(made.told()))
    else:
        for one in made.shown:
            result(f"{one.edition.stem}: {made.out / one.files['png'] if one.drawn else f'not drawn: {one.note}'}")
        result(f"index: {made.index}")
    if made.failed:
        names = ", ".join(one.edition.stem for one in made.failed)
        told = f"{len(made.failed)} of {len(made.shown)} exhibits failed"
        raise TheodoliteError(f"{told} ({names}); {made.index} tells why.")
