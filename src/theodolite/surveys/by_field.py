"""--by: how a survey groups its documents by a field of the corpus, and what merging does with the groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from theodolite.corpora.fields import FieldChoice, join_choices
from theodolite.corpora.options import TOP
from theodolite.errors import InputError
from theodolite.models.layers import Layer
from theodolite.state.state import State
from theodolite.statistics.cells import cells_to_separate
from theodolite.statistics.fold import MAX_MATRIX_DIM
from theodolite.statistics.unit_table import UnitTable

BY = "by"  # in survey.json: the field and its groups; missing if documents are not grouped
MATRIX_BYTES = 2**29
"""Memory for the matrices of all layers: as many of the largest groups as fit have spectra."""
UNIT_BYTES = 2**29
"""Memory for the sums by group and unit of all layers: as many of the largest groups as fit have V_W and V_B."""
MOST_GROUPS = 1000
CELLS_HELD = 2  # of a layer, with a matrix per group: ordinary and first positions


def check_field(by: object) -> None:
    """Reject what is not the name of a field, such as a list of labels, which `theodolite.measure` accepts."""
    if by is not None and not isinstance(by, str):
        raise InputError(
            f"--by requires the name of a field of the corpus, such as 'language' (got a value of type "
            f"{type(by).__name__}). In Python, labels of texts are given as dicts: "
            "[{'text': ..., 'language': ...}, ...] with by='language'."
        )
    if by is not None and not by.strip():
        raise InputError("--by is empty. Name a field of the corpus, such as language, or omit it.")


def check_number_of_groups(by: object, top: int) -> None:
    """Reject a number of groups without a field to group by, or one that is too large."""
    if by is None and top != TOP:
        raise InputError(f"--by-top {top} requires --by: the field whose values group the documents.")
    if top > MOST_GROUPS:
        raise InputError(f"--by-top {top} is too large: at most {MOST_GROUPS:,} groups are compared in pairs.")


def limit_memory(choice: FieldChoice, layers: Sequence[Layer], populations: Sequence[str]) -> FieldChoice:
    """Return the groups with what fits in memory: how many of the first have spectra, and rows of sums by unit."""
    wide = next((layer for layer in layers if layer.dim > MAX_MATRIX_DIM), None)
    if wide is not None:
        raise InputError(
            f"--by: vectors of more than {MAX_MATRIX_DIM:,} coordinates cannot be grouped (layer {wide.name} has "
            f"{wide.dim:,}). Omit --by."
        )
    cells = CELLS_HELD if any(cells_to_separate(populations)) else 1
    size = cells * sum(8 * layer.dim**2 for layer in layers)
    row = sum(UnitTable.expected_bytes(layer.dim, 1) for layer in layers)
    matrices, rows = MATRIX_BYTES // max(size, 1), UNIT_BYTES // max(row, 1)
    return replace(choice, matrices=min(len(choice), matrices), unit_rows=rows)


def describe_by(choice: FieldChoice | None, top: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what identifies the groups of a run: among its settings, and of its corpus."""
    if choice is None:
        return {}, {}
    return {"by": choice.field, "by_top": top}, {"by": choice.sha256}


def join_groups(state: State, facts: dict[str, Any], other: State, other_facts: dict[str, Any]) -> State:
    """Give two surveys the same groups before their sums are added; return the second state with these groups.

    `state` and `facts` are changed; `other` is copied first.
    """
    if BY not in facts:
        return other
    first, second = (FieldChoice.from_dict(each[BY]) for each in (facts, other_facts))
    same = first.sha256 == second.sha256
    joined, codes, other_codes = join_choices(first, second, same_corpus=same)
    facts[BY] = joined.to_dict()
    copied = replace(other, folds={index: fold.copy() for index, fold in other.folds.items()})
    for each, new in ((state, codes), (copied, other_codes)):
        for fold in each.folds.values():
            fold.regroup(torch.tensor(new, dtype=torch.int64), len(joined), joined.matrices, joined.unit_rows)
    return copied
