"""theodolite survey: carry a corpus through a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import (
    BatchTokens,
    Column,
    Device,
    Dtype,
    Field,
    Layers,
    Limit,
    MaxTokens,
    MaxWords,
    Memory,
    MinWords,
    Populations,
    Quiet,
    Revision,
    SampleSize,
    Seed,
    Share,
    TrustRemoteCode,
)

Corpus = (
    "a catalogue name, a .txt (one document a line), .jsonl or .parquet file, .gz too, a quoted glob, or hf:NAME"
)


def survey(
    model: Annotated[str, typer.Argument(help="Catalogue name, model folder, .gguf file or hub name.")],
    corpus: Annotated[
        list[str], typer.Option(help=f"What to read: {Corpus}; for speech and vision a folder of files.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the survey, or one in a bucket: s3://BUCKET/FOLDER.")],
    units: Annotated[
        str | None,
        typer.Option(
            help="What vectors are counted by: id (the default), surface or word of text; none (the default), "
            "position, document or label of speech and vision."
        ),
    ] = None,
    layers: Layers = None,
    field: Field = "text",
    column: Column = "text",
    min_words: MinWords = None,
    max_words: MaxWords = None,
    sample: Share = None,
    seed: Seed = 0,
    limit: Limit = None,
    encoding_errors: Annotated[
        str, typer.Option(help="strict, or replace to go on past invalid UTF-8.")
    ] = "strict",
    target: Annotated[
        str | None,
        typer.Option(help="Field or column that an encoder-decoder's decoder is fed. Default: the text itself."),
    ] = None,
    max_tokens: MaxTokens = None,
    batch_tokens: BatchTokens = None,
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
    populations: Populations = "all,without-first,without-massive",
    sample_size: SampleSize = 4096,
    pilot: Annotated[
        Path | None, typer.Option(help="Use the pilot of this survey, so that both can be merged.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="I/N: survey every N-th shard, from I = 0, to be merged.")
    ] = None,
    memory: Memory = None,
    device: Device = None,
    dtype: Dtype = "float32",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    engine: Annotated[str, typer.Option(help="local, or ray to survey on many machines.")] = "local",
    address: Annotated[
        str, typer.Option(help="With ray: auto, the cluster this machine is in; local, a new one here; HOST:PORT.")
    ] = "auto",
    workers: Annotated[
        int | None, typer.Option(help="With ray: how many. Default: one for every GPU, or for every machine.")
    ] = None,
    gpus_per_worker: Annotated[int, typer.Option(help="With ray: 1 has every worker use a GPU.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the survey in the folder.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the layers as JSON to stdout.")] = False,
    quiet: Quiet = False,
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
            engine=engine,
            address=address,
            workers=workers,
            gpus_per_worker=gpus_per_worker,
        )
    finish(made, as_json=json, quiet=quiet)
