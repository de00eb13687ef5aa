"""The `theodolite` command: its verbs, and what a user sees when something is wrong."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from theodolite.cli import (
    batches,
    block,
    catalogue,
    cautions,
    clouds,
    compare,
    contrast,
    dynamics,
    exhibit,
    exhibits,
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
    survey,
    trace,
    view,
    weights,
    what_if,
)
from theodolite.errors import TheodoliteError, first_line

app = typer.Typer(
    name="theodolite",
    help="Survey embedding spaces: one pass over a corpus, every layer, exact numbers in bounded memory.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("survey")(survey.survey)
app.command("measure")(measure.measure)
app.command("merge")(merge.merge)
app.command("show")(show.show)
app.command("report")(report.report)
app.command("view")(view.view)
app.command("compare")(compare.compare)
app.command("sets")(sets.sets)
app.command("batches")(batches.batches)
app.command("what-if")(what_if.what_if)
app.command("weights")(weights.weights)
app.command("probe")(probe.probe)
app.command("contrast")(contrast.contrast)
app.command("clouds")(clouds.clouds)
app.command("cautions")(cautions.cautions)
app.command("trace")(trace.trace)
app.command("groups")(groups.groups)
app.command("block")(block.block)
app.command("dynamics")(dynamics.dynamics)
app.command("exhibit")(exhibit.exhibit)
app.command("exhibits")(exhibits.exhibits)
app.command("export")(export.export)
app.command("reproduce")(reproduce.reproduce)
app.command("models")(catalogue.models)
app.command("corpora")(catalogue.corpora)
app.command("measures")(measures.measures)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Take the options that every verb shares; main() has taken --debug already."""


def main() -> None:
    """Run the command: exit code 0 done, 1 failed, 2 the user's input."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--version"]:
        from importlib.metadata import version

        print(version("theodolite"))
        return
    debug = "--debug" in arguments or bool(os.environ.get("THEODOLITE_DEBUG"))
    try:
        app(args=[argument for argument in arguments if argument != "--debug"])
    except Exception as error:
        if debug:
            raise
        sys.exit(_told(error))
    except KeyboardInterrupt:
        sys.exit(_say("Interrupted.", 1))


def _told(error: Exception) -> int:
    """Print one sentence about an error and return the exit code."""
    if isinstance(error, TheodoliteError):
        return _say(str(error), error.exit_code)
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: nothing to say
        return 0
    if isinstance(error, MemoryError) or "not enough memory" in str(error):
        return _say("Memory ran out. Use fewer --layers, a smaller --batch-tokens, or a limit with --memory.", 1)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}.", 1)
    line = first_line(error, "")
    return _say(f"Something unexpected went wrong ({type(error).__name__}: {line}). --debug shows where.", 1)


def _say(text: str, code: int) -> int:
    print(f"theodolite: {text}", file=sys.stderr)
    return code
