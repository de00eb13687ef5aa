"""theodolite reproduce: all exhibits of a paper on your own models and text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from theodolite.cli.options import CORPUS, Quiet, add_flags
from theodolite.surveys.options import RunOptions, SurveyOptions

OPTIONS = "layers field column max_words sample seed limit max_tokens device dtype".split()


@add_flags(SurveyOptions, RunOptions, only=OPTIONS)
def reproduce(
    paper: Annotated[str, typer.Argument(help="The paper, such as norm-variance.")],
    model: Annotated[
        list[str],
        typer.Option(
            help="Catalogue name, model folder, .gguf file or hub name; may be repeated. MODEL=CORPUS gives a "
            "model its own corpus."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the surveys, the figures and the index page.")],
    corpus: Annotated[str | None, typer.Option(help=f"Corpus for text models: {CORPUS}.")] = None,
    audio: Annotated[
        str | None,
        typer.Option(help="Corpus for speech models: a folder of .wav or .flac files, or the catalogue's speech."),
    ] = None,
    images: Annotated[
        str | None,
        typer.Option(help="Corpus for vision models: a folder of images, or the catalogue's pictures."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Second corpus, for papers that compare two. Default: one of the catalogue."),
    ] = None,
    series: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Folder written by `theodolite dynamics`, for figures by training step; may be repeated.",
        ),
    ] = None,
    pairs: Annotated[
        Path | None, typer.Option(help="With bert-spaces: your own sentence pairs, as for `contrast`.")
    ] = None,
    groups: Annotated[
        Path | None, typer.Option(help="With bert-spaces: your own groups of sentences, as for `groups`.")
    ] = None,
    sentences: Annotated[
        Path | None, typer.Option(help="With bert-spaces: your own sentences to trace, one per line.")
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(
            help="With bert-spaces: your own words with labels, as for `probe`. Default: nouns, verbs, adjectives."
        ),
    ] = None,
    *,
    units: Annotated[
        str | None,
        typer.Option(help="Units that group the vectors: id, surface or word. Default: as in the paper."),
    ] = None,
    wrap: Annotated[
        bool,
        typer.Option(
            "--wrap", help="Add BOS and EOS to every window if the tokenizer adds none, as in the paper."
        ),
    ] = False,
    contextuality: Annotated[
        bool | None,
        typer.Option(
            "--contextuality/--no-contextuality",
            help="Also compute self-similarity, intra-sentence similarity and MEV. Doubles the memory for unit "
            "tables. Default: on for norm-variance.",
        ),
    ] = None,
    clean_words: Annotated[
        bool,
        typer.Option(
            "--clean-words",
            help="Surveys by word read words of 2 to 15 letters only, lowercased, as in the paper.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the list of exhibits as JSON.")] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Reproduce a paper: run the missing surveys, draw all exhibits, and write an index page."""
    import json as encoder

    from theodolite.cli.console import Printer, print_result, silence_transformers
    from theodolite.errors import TheodoliteError
    from theodolite.reproduction.reproduce import reproduce as run

    silence_transformers()
    files = {"pairs": pairs, "groups": groups, "sentences": sentences, "words": words}
    options |= {"wrap": wrap, "clean_words": clean_words, "contextuality": contextuality}
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
            files={name: file for name, file in files.items() if file is not None},
            options=options,
            listener=printer,
        )
    if json:
        print_result(encoder.dumps(made.to_dict()))
    else:
        for result in made.results:
            outcome = made.out / result.files["png"] if result.drawn else f"not drawn: {result.note}"
            print_result(f"{result.edition.stem}: {outcome}")
        print_result(f"index: {made.index}")
    if made.failed:
        names = ", ".join(result.edition.stem for result in made.failed)
        count = f"{len(made.failed)} of {len(made.results)} exhibits failed"
        raise TheodoliteError(f"{count} ({names}); the reasons are in {made.index}.")
