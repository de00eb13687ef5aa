"""The tables a model looks its input up in: words, positions, segments, found by how they are read.

A table whose rows are the tokens' ids is the word table; one whose rows go up by one from token to token is the
table of positions, and rows before the first token's are never read; one of which all tokens read the same row is
the table of segments; one read for every pair of tokens is a table of relative positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from theodolite.errors import InputError
from theodolite.studies.weights.lookups import Lookup, lookups
from theodolite.studies.weights.units import units_of

ROTARY, RELATIVE, ALIBI, NO_POSITIONS = "rotary", "relative bias", "ALiBi", "none"
INSTEAD = {
    ROTARY: "{name} has no table of positions: it turns queries and keys by position (RoPE); the curve of how "
    "alike RoPE makes positions by their distance stands in its place.",
    RELATIVE: "{name} has no table of positions: it adds a learned bias to attention scores by relative position; "
    "that table, {table}, stands in its place.",
    ALIBI: "{name} has no table of positions: it lowers attention scores in proportion to distance (ALiBi), which "
    "has no weights.",
    NO_POSITIONS: "{name} has no table of positions, and none was seen to stand in its place.",
}


@dataclass(frozen=True, eq=False)
class Tables:
    """What a model looks its input up in; vectors are on the CPU, in float32 (exact for bfloat16 and float16).

    `names` are the parameters' names by role: words, positions, segments, relative.
    """

    model: nn.Module
    tokenizer: Any  # or None
    words: Tensor  # (vocabulary, dim), every row, special and unused ones too
    positions: Tensor | None  # (positions, dim), row p is position p: rows that no token reads are dropped
    segments: Tensor | None  # (segments, dim)
    units: pd.DataFrame  # a row per row of `words`: id, unit (as spelled), text (as read), name (as shown), ...
    names: dict[str, str]
    dropped: int = 0  # rows before position 0 (RoBERTa and OPT: 2)
    position_kind: str = "table"  # or rotary, relative bias, ALiBi, none
    notes: tuple[str, ...] = ()  # sentences on what was dropped or is not there

    @classmethod
    def of(cls, model: nn.Module, tokenizer: Any = None) -> Tables:
        """Find the tables of a loaded model by watching what it reads for a few tokens."""
        check_text(model)
        ids, seen = lookups(model)
        words = next((each for each in seen if each.is_of(ids)), None)
        if words is None:
            raise InputError(f"{type(model).__name__}: no table was seen to be read by the tokens' ids.")
        count, others = len(ids), [each for each in seen if each is not words and not each.by_pair]
        positions = next((each for each in others if each.offset(count) is not None), None)
        segments = next((each for each in others if each is not positions and each.is_constant(count)), None)
        relative = next((each for each in seen if each.by_pair), None)
        dropped = (positions.offset(count) or 0) if positions else 0
        roles = {"words": words, "positions": positions, "segments": segments, "relative": relative}
        names = {role: found.name for role, found in roles.items() if found}
        kind = "table" if positions else _position_kind(model, relative)
        more = [each.name for each in others if each is not positions and each.offset(count) is not None]
        notes = _notes(type(model).__name__, names, dropped, kind, more)
        vectors = _vectors(words)
        return cls(
            model,
            tokenizer,
            vectors,
            None if positions is None else _vectors(positions)[dropped:],
            None if segments is None else _vectors(segments),
            units_of(tokenizer, len(vectors)),
            names,
            dropped,
            kind,
            notes,
        )

    def by_role(self) -> dict[str, Tensor]:
        """Return the tables that there are: words, positions, segments."""
        tables = {"words": self.words, "positions": self.positions, "segments": self.segments}
        return {role: table for role, table in tables.items() if table is not None}

    def row_names(self, role: str) -> list[str]:
        """Return what the rows of a table are called: tokens as people read them, else numbers from 0."""
        if role == "words":
            return list(self.units["name"])
        return [str(number) for number in range(len(self.by_role()[role]))]


def check_text(model: nn.Module) -> None:
    """Refuse a model that looks no tokens up."""
    given = getattr(model, "get_input_embeddings", None)
    try:
        table = given() if given else None
    except NotImplementedError:
        table = None
    if not isinstance(getattr(table, "weight", None), Tensor) or not getattr(model.config, "vocab_size", None):
        raise InputError(
            f"{type(model).__name__} looks no tokens up in a table, so it has no word vectors to weigh; "
            "give a text model, such as minilm-l6."
        )


def _vectors(found: Lookup) -> Tensor:
    return found.weight.detach().to("cpu", torch.float32).clone()


def _position_kind(model: nn.Module, relative: Lookup | None) -> str:
    if relative is not None:
        return RELATIVE
    if any("rotary" in type(module).__name__.lower() for module in model.modules()):
        return ROTARY
    config: Any = model.config
    alibi = getattr(config, "alibi", False) or config.model_type in ("bloom", "mpt")
    return ALIBI if alibi else NO_POSITIONS


def _notes(model: str, names: dict[str, str], dropped: int, kind: str, more: list[str]) -> tuple[str, ...]:
    notes = []
    if kind != "table":
        notes.append(INSTEAD[kind].format(name=model, table=names.get("relative")))
    if dropped:
        rows = (
            "row of the table of positions is" if dropped == 1 else f"{dropped} rows of the table of positions are"
        )
        notes.append(f"The first {rows} read by no token and left out: position 0 is row {dropped}.")
    if more:
        notes.append(f"The first table of positions is weighed, {names['positions']}, and not {', '.join(more)}.")
    if "segments" not in names:
        notes.append(f"{model} has no table of segments.")
    return tuple(notes)
