"""The `theodolite` command: its verbs, and how errors are printed."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from theodolite import errors
from theodolite.cli import (
    batches,
    block,
    bridge,
    catalogue,
    cautions,
    check,
    clouds,
    compare,
    contrast,
    dynamics,
    exhibit,
    export,
    groups,
    measure,
    measures,
    merge,
    probe,
    report,
    reproduce,
    sets,
    show,
    store,
    survey,
    trace,
    view,
    weights,
    what_if,
)
from theodolite.cli.pipes import ignore_end_of_reader
from theodolite.errors import InputError, TheodoliteError, first_line

ABORTED = 130  # what a shell expects after Ctrl-C
NUMBERS = {"int": "an integer", "float": "a number"}


class Verbs(TyperGroup):
    """Runs a verb; a value of a flag that is no number is reported in our words."""

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments of the verb and call it."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(_print_error("Interrupted.", ABORTED))
        except typer.BadParameter as error:
            found: list[dict[str, Any]] = getattr(
                error.__cause__, "errors", list
            )()  # of pydantic, by which Typer converts values
            kind = NUMBERS.get(found[0]["type"].partition("_")[0]) if found else None
            if kind is None or error.param is None:
                raise
            name = getattr(error.param, "opts", [error.param.name])[0]
            raise InputError(f"{name} requires {kind} (got {found[0]['input']!r}).") from None


app = typer.Typer(
    name="theodolite",
    cls=Verbs,
    help="Measure the geometry of embedding spaces: one pass over a corpus, every layer, in bounded memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
VERBS = (
    (survey.survey, "survey", "Run a corpus through a model and measure every layer"),
    (measure.measure, "measure", "Measure vectors from a file"),
    (store.store, "store", "Check the health of a vector store"),
    (merge.merge, "merge", "Merge surveys of different documents into one"),
    (show.show, "show", "Print the layer table of a survey"),
    (report.report, "report", "Write a report about surveys: HTML or Markdown"),
    (view.view, "view", "Write the report and open it in the browser"),
    (check.check, "check", "Compare a survey, store or checkpoint with a baseline"),
    (compare.compare, "compare", "Plot several surveys on the same axes"),
    (sets.sets, "sets", "Collect the vectors of a few tokens of a survey"),
    (batches.batches, "batches", "Measure a few contiguous chunks of the corpus"),
    (what_if.what_if, "what-if", "Measure after centring, whitening, removing directions"),
    (weights.weights, "weights", "Measure the embedding tables of a model"),
    (probe.probe, "probe", "Predict the classes of words from their vectors"),
    (contrast.contrast, "contrast", "Audit bias: compare the sentences of pairs"),
    (clouds.clouds, "clouds", "Compare corpora by their document vectors"),
    (bridge.bridge, "bridge", "Compare two models, or layers, over the same text"),
    (cautions.cautions, "cautions", "Show how projections distort known shapes"),
    (trace.trace, "trace", "Follow the tokens of sentences through the layers"),
    (groups.groups, "groups", "Measure distances within and between sentence groups"),
    (block.block, "block", "Measure one block while a bias in its input grows"),
    (dynamics.dynamics, "dynamics", "Survey the checkpoints of a training run"),
    (exhibit.exhibit, "exhibit", "Draw a figure or table of a paper from surveys"),
    (catalogue.exhibits, "exhibits", "List the figures and tables that can be drawn"),
    (export.export, "export", "Write sampled vectors for another viewer"),
    (reproduce.reproduce, "reproduce", "Reproduce a paper: surveys, exhibits, index page"),
    (catalogue.models, "models", "List the models of the catalogue"),
    (catalogue.corpora, "corpora", "List the corpora of the catalogue"),
    (measures.measures, "measures", "List every measure with its formula"),
)
for _function, _name, _summary in VERBS:
    app.command(_name, short_help=_summary)(_function)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when a command fails.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Declare the options that every verb shares; main() handles them."""


def main() -> None:
    """Run the command.

    Exit codes: 0 success, 1 failure, or interrupted after saving what can be saved, 2 wrong input, 130 interrupted
    at once.
    """
    try:
        _run()
    finally:
        with ignore_end_of_reader():
            sys.stdout.flush()


def _run() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["--version"]:
        from importlib.metadata import version

        print(version("theodolite"))
        return
    errors.show_flags = True
    debug = "--debug" in arguments or bool(os.environ.get("THEODOLITE_DEBUG"))
    try:
        app(args=[argument for argument in arguments if argument != "--debug"])
    except Exception as error:
        if debug:
            raise
        sys.exit(_report(error))


def _report(error: Exception) -> int:
    """Print an error in one sentence and return the exit code."""
    if isinstance(error, TheodoliteError):
        return _print_error(str(error), error.exit_code)
    if isinstance(error, OSError):
        path = f"{error.filename}: " if error.filename else ""
        return _print_error(f"{path}{error.strerror or error}.", 1)
    line = first_line(error, "")
    from theodolite.sources.batch_limit import is_out_of_memory  # imports torch

    if is_out_of_memory(error):
        cause = f" ({line.partition('. ')[0]})" if line else ""
        return _print_error(
            f"Out of memory{cause}. Use fewer --layers, a smaller --batch-tokens, or set a limit with --memory.", 1
        )
    return _print_error(
        f"Unexpected error ({type(error).__name__}: {line}). Run `theodolite --debug ...` to see the traceback.", 1
    )


def _print_error(text: str, code: int) -> int:
    print(f"theodolite: {text}", file=sys.stderr)
    return code
