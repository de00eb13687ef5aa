"""Check the arguments of a probe before anything is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

from theodolite.errors import InputError, nearest
from theodolite.integrations.measure import SAMPLE_COLUMNS


def check_number(name: str, value: object, of: str) -> None:
    """Reject a value that is not a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be an integer number of {of}, at least 1 (got {value!r}).")


def check_step(step: object) -> None:
    """Reject a step that is not a number, as when model and step are exchanged."""
    if not isinstance(step, Real) and not hasattr(step, "__index__"):
        raise InputError(
            f"step must be the number of the training step (got a value of type {type(step).__name__}); call the "
            "probe as probe(model, step)."
        )


def list_texts(texts: Any) -> list[str]:
    """Return the texts as a list: a generator would be exhausted when the probe set is made again."""
    if isinstance(texts, Iterable):
        return list(texts)
    raise InputError(
        f"texts requires strings, a file or a catalogue name (got a value of type {type(texts).__name__})."
    )


def check_sampled(logged: Sequence[str], dimension: bool) -> None:
    """Reject columns that need a sample, if there is none."""
    for name in logged:
        if name in SAMPLE_COLUMNS and not dimension:
            raise InputError(f"logged: {name!r} requires dimension=True, which computes it from a sample.")


def check_names(argument: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Reject names that are not known."""
    if isinstance(names, str) or not names:
        raise InputError(f"{argument} must be a list of names such as {', '.join(known[:3])} (got {names!r}).")
    for name in names:
        if name not in known:
            listed = f" Known: {', '.join(known)}." if len(known) < 9 else ""
            raise InputError(f"{argument}: {name!r} is not known.{nearest(str(name), list(known))}{listed}")
