"""theodolite survey: carry a corpus through a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Corpus = (
    "a catalogue name, a .txt (one document a line), .jsonl or .parquet file, .gz too, a quoted glob, or hf:NAME"
)


def survey(
    model: Annotated[str, typer.Argument(help="Catalogue name, model folder, .gguf file or hub name.")],
    corpus: Annotated[
        list[str], typer.Option(help=f"What to read: {Corpus}; for speech and vision a folder of files.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the survey.")],
    units: Annotated[
        str | None,
        typer.Option(
            help="What vectors are counted by: id (the default), surface or word of text; none (the default), "
            "position, document or label of speech and vision."
        ),
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers to take, such as 0,6,12 or 0-3 or -1. Default: all.")
    ] = None,
    field: Annotated[str, typer.Option(help="Field of a .jsonl that holds the text.")] = "text",
    column: Annotated[str, typer.Option(help="Column of a .parquet that holds the text.")] = "text",
    min_words: Annotated[int | None, typer.Option(help="Keep documents of at least so many words.")] = None,
    max_words: Annotated[int | None, typer.Option(help="Keep documents of fewer words than this.")] = None,
    sample: Annotated[
        float | None, typer.Option(help="Keep this fraction of the documents, chosen by hash.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --sample.")] = 0,
    limit: Annotated[
        int | None, typer.Option(help="Keep the first so many documents that the filters keep.")
    ] = None,
    encoding_errors: Annotated[
        str, typer.Option(help="strict, or replace to go on past invalid UTF-8.")
    ] = "strict",
    target: Annotated[
        str | None,
        typer.Option(help="Field or column that an encoder-decoder's decoder is fed. Default: the text itself."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(help="Cut documents into windows of so many tokens. Default: 512 or the model's limit."),
    ] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Tokens a batch, padding included.")] = None,
    drop_special: Annotated[bool, typer.Option("--drop-special", help="Leave special tokens out.")] = False,
    wrap: Annotated[
        bool, typer.Option("--wrap", help="Put BOS and EOS around every window where the tokenizer adds none.")
    ] = False,
    contextuality: Annotated[
        bool,
        typer.Option("--contextuality", help="Also tell self-similarity and its kin; doubles the tables kept."),
    ] = False,
    clean_words: Annotated[
        bool,
        typer.Option("--clean-words", help="With --units word: have the model read words without punctuation."),
    ] = False,
    maps: Annotated[
        str | None,
        typer.Option(help="Convolutional maps: flat, one vector a picture, or places, one a place."),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out and count files that do not decode.")
    ] = False,
    max_seconds: Annotated[float, typer.Option(help="Cut longer recordings into equal clips.")] = 30.0,
    populations: Annotated[
        str, typer.Option(help="Which of all, without-first, without-massive to tell.")
    ] = "all,without-first,without-massive",
    sample_size: Annotated[int, typer.Option(help="Vectors kept whole, a layer and cell.")] = 4096,
    pilot: Annotated[
        Path | None, typer.Option(help="Use the pilot of this survey, so that both can be merged.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="I/N: survey every N-th shard, from I = 0, to be merged.")
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Refuse to need more than this, such as 8G.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1. Default: a GPU if there is one.")] = None,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    revision: Annotated[str | None, typer.Option(help="Revision of a hub model.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Let a model run the Python code that it brings.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the survey in the folder.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the layers as JSON to stdout.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no progress.")] = False,
) -> None:
    """Carry a corpus through a model once; measure every layer; leave a folder with tables and a report."""
    from theodolite.cli.console import Printer, hush
    from theodolite.cli.finish import finish
    from theodolite.errors import InputError
    from theodolite.surveys.memory import parse_size
    from theodolite.surveys.models import survey as run

    if len(corpus) > 1:
        raise InputError(
            f"--corpus came {len(corpus)} times; for several files give one quoted glob, such as 'texts/*.txt'."
        )
    hush()
    budget = parse_size(memory) if memory is not None else None
    with Printer(quiet=quiet).listening() as printer:
        made = run(
            model,
            corpus[0],
            out=out,
            units=units,
            layers=layers,
            min_words=min_words,
            max_words=max_words,
            sample=sample,
            seed=seed,
            limit=limit,
            field=field,
            column=column,
            encoding_errors=encoding_errors,
            target=target,
            max_tokens=max_tokens,
            batch_tokens=batch_tokens,
            drop_special=drop_special,
            wrap=wrap,
            clean_words=clean_words,
            contextuality=contextuality,
            maps=maps,
            skip_bad=skip_bad,
            max_seconds=max_seconds,
            populations=[name.strip() for name in populations.split(",") if name.strip()],
            sample_size=sample_size,
            pilot=pilot,
            part=part,
            memory=budget,
            device=device,
            dtype=dtype,
            revision=revision,
            trust_remote_code=trust_remote_code,
            resume=resume,
            overwrite=overwrite,
            listener=printer,
        )
    finish(made, as_json=json, quiet=quiet)
