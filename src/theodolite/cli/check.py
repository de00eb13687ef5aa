"""theodolite check: compare a survey, a store or a checkpoint with a baseline, for people and for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from theodolite.cli.options import Quiet, on_disk


def check(
    folder: Annotated[
        str | None,
        typer.Argument(
            metavar="DIR", help="Folder of a survey, of `theodolite store --out`, or of a series of checkpoints."
        ),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Folder of the same kind to compare with.")] = None,
    rules: Annotated[
        Path | None,
        typer.Option(help="TOML file of rules. Default: those that --init would write.", callback=on_disk),
    ] = None,
    init: Annotated[
        bool, typer.Option("--init", help="Write --rules (default: rules.toml) from the baseline, and stop.")
    ] = False,
    step: Annotated[int | None, typer.Option(help="Step of a series to check. Default: the last.")] = None,
    baseline_step: Annotated[
        int | None, typer.Option(help="Step of the baseline, if it is a series. Default: the last.")
    ] = None,
    level: Annotated[
        float, typer.Option(help="Share of false alarms of the rules that --init writes, over all rules.")
    ] = 0.05,
    json: Annotated[Path | None, typer.Option(help="JSON file to write.", callback=on_disk)] = None,
    junit: Annotated[
        Path | None, typer.Option(help="JUnit XML file to write, which CI systems show.", callback=on_disk)
    ] = None,
    page: Annotated[Path | None, typer.Option(help="HTML page to write.", callback=on_disk)] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of rules.")] = False,
    quiet: Quiet = False,
) -> None:
    """Compare a survey, a store or a checkpoint with a baseline; exit with 1 if a rule is broken."""
    from theodolite.api.check import check as run
    from theodolite.api.check import write_page, write_rules
    from theodolite.cli.console import Printer, print_result
    from theodolite.errors import InputError
    from theodolite.text import pluralize

    if init:
        if (folder is None) == (baseline is None):
            raise InputError(
                "--init requires the baseline and nothing to check: `theodolite check --init --baseline DIR`."
            )
        out = rules or Path("rules.toml")
        chosen = baseline_step if baseline is not None else step
        made = write_rules(baseline or str(folder), out, step=chosen, level=level, overwrite=overwrite)
        if not any(rule.test for rule in made.rules):
            Printer(quiet=quiet).say(f"note: {out} has no tests, only limits; its first lines say why.")
        print_result(f"rules: {out} ({pluralize(len(made.rules), 'rule')})")
        return
    if folder is None or baseline is None:
        missing = "DIR, the folder to check" if folder is None else "--baseline, the folder to compare with"
        raise InputError(f"check requires {missing}.")
    result = run(folder, baseline, rules=rules, step=step, baseline_step=baseline_step, level=level)
    printer = Printer(quiet=quiet)
    for note in result.notes:
        printer.say(f"note: {note}")
    if json is not None:
        result.write_json(json)
    if junit is not None:
        result.write_junit(junit)
    if page is not None:
        write_page(result, page)
    for line in result.broken:
        print_result(line)
    printer.say(result.summary)
    if not result.passed:
        raise typer.Exit(1)
