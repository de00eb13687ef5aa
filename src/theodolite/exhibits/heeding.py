"""Heeding: which of the options chosen an exhibit depends on, and the choice without the others."""

from __future__ import annotations

from dataclasses import replace

from theodolite.exhibits.exhibit import Exhibit
from theodolite.studies.choice import Choice

OPTIONS = ("population", "variant", "filter", "specials", "depth", "steps")


def unheeded(found: Exhibit, choice: Choice) -> dict[str, str]:
    """Return the fields chosen that an exhibit does not heed, each with what is told of it."""
    plain = Choice()
    told = {
        option: f"does not depend on --{option}; leave it out"
        for option in OPTIONS
        if option not in found.options and getattr(choice, option) != getattr(plain, option)
    }
    if choice.layers and not {"layer", "layers"} & set(found.options):
        told["layers"] = "is not of one layer; leave --layer out"
    elif len(choice.layers) > 1 and "layers" not in found.options:
        told["layers"] = "draws one layer; give --layer once"
    return told


def heeded(found: Exhibit, choice: Choice) -> Choice:
    """Return the choice with every field that the exhibit does not heed as if it had not been chosen."""
    plain = Choice()
    return replace(choice, **{option: getattr(plain, option) for option in unheeded(found, choice)})
