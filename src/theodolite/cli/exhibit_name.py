"""The name that `theodolite exhibit` is given: an exhibit's or a paper's, and what is said to any other."""

from __future__ import annotations

import shlex
from pathlib import Path


def known_name(name: str) -> str:
    """Return the name of an exhibit or a paper; refuse another before anything is read."""
    from theodolite.errors import InputError
    from theodolite.exhibits.registry import all_exhibits, find, is_paper

    if is_paper(name):
        return name
    if name not in all_exhibits() and Path(name).is_dir():
        way = f"theodolite exhibit NAME {shlex.quote(name)} --out FILE"
        raise InputError(f"{name} is a folder, and the exhibit's name comes first: `{way}`.")
    return find(name).name
