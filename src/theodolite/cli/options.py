"""Options that several verbs share; those of surveys come from `surveys.options`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from theodolite.surveys.options import Described, RunOptions, SurveyOptions, flag, list_options

CORPUS = (
    "a catalogue name, a .txt (one document per line), .jsonl or .parquet file (also .gz), a quoted glob, "
    "or hf:NAME"
)
HELP = {each.name: each.option.help for kind in (SurveyOptions, RunOptions) for each in list_options(kind)}

Layers = Annotated[str | None, typer.Option(help=HELP["layers"])]
Memory = Annotated[str | None, typer.Option(help=HELP["memory"])]
Device = Annotated[str | None, typer.Option(help=HELP["device"])]
Dtype = Annotated[str, typer.Option(help=HELP["dtype"])]
Revision = Annotated[str | None, typer.Option(help=HELP["revision"])]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help=HELP["trust_remote_code"])]
Resume = Annotated[bool, typer.Option("--resume", help=HELP["resume"])]
Overwrite = Annotated[bool, typer.Option("--overwrite", help=HELP["overwrite"])]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress and no explanations.")]


def on_disk(context: typer.Context, given: Path | None) -> Path | None:
    """Reject the address of a bucket for a verb that writes to disk only, before anything is read."""
    if given is None:
        return None
    from theodolite.storage.location import local_path

    return local_path(given, str(context.info_name))


def _flags(each: Described) -> str:
    """Return the flag of an option; one that is on by default can be turned off: --text/--no-text."""
    return f"{flag(each.name)}/--no-{flag(each.name)[2:]}" if each.default is True else flag(each.name)


def add_flags(
    *kinds: type, only: Sequence[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace `**options` of a verb by one flag per option of the dataclasses, all or the named ones.

    The verb is called with the values that Python takes: "8G" has become a number of bytes.
    """
    described = [each for kind in kinds for each in list_options(kind, only)]

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(verb, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        flags = [
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=",".join(each.default) if isinstance(each.default, tuple) else each.default,
                annotation=Annotated[
                    each.option.flag_type or each.type, typer.Option(_flags(each), help=each.option.help)
                ],
            )
            for each in described
        ]
        positional = [p for p in own if p.kind is not p.KEYWORD_ONLY]
        last = [p for p in own if p.kind is p.KEYWORD_ONLY]

        @wraps(verb)
        def call(**given: Any) -> None:
            for each in described:
                if each.option.parse is not None and given[each.name] is not None:
                    given[each.name] = each.option.parse(given[each.name])
            verb(**given)

        parameters = [*positional, *flags, *last]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        return call

    return decorate
