"""The embedding tables of a model (words, positions, segments), found by recording what a few tokens read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from theodolite.errors import InputError, first_line
from theodolite.models.text_anatomy import make_probe
from theodolite.studies.weights.vocabulary import token_units

ROTARY, RELATIVE, ALIBI, NO_POSITIONS = "rotary", "relative bias", "ALiBi", "none"
POSITION_NOTES = {
    ROTARY: "{name} has no position table: it rotates queries and keys by position (RoPE). The similarity of "
    "positions by distance under RoPE is reported instead.",
    RELATIVE: "{name} has no position table: it adds a learned bias to attention scores by relative position. The "
    "table of that bias, {table}, is reported instead.",
    ALIBI: "{name} has no position table: it lowers attention scores in proportion to distance (ALiBi), which "
    "has no weights.",
    NO_POSITIONS: "{name} has no position table, and no replacement for it was found.",
}


@dataclass(frozen=True)
class Lookup:
    """One table that the model read: its parameter, and the indices of the rows read."""

    name: str
    weight: Tensor  # (rows, width)
    indices: Tensor

    @property
    def by_pair(self) -> bool:
        """Whether it was read once per pair of tokens, as a table of relative positions is."""
        return self.indices.ndim >= 2 and self.indices.shape[-1] == self.indices.shape[-2] > 1

    def is_of(self, ids: Tensor) -> bool:
        """Return whether the rows read are those of the token ids."""
        return self.indices.shape[-1:] == ids.shape[-1:] and bool((self._flat() == ids).all())

    def offset(self, count: int) -> int | None:
        """Return the row of the first token if the rows increase by one from token to token, else None."""
        flat = self._flat()
        if flat.shape[-1] != count or count < 2:
            return None
        rising = bool((flat.diff() == 1).all()) and bool((flat == flat[:1]).all())
        return int(flat[0, 0]) if rising else None

    def is_constant(self, count: int) -> bool:
        """Return whether all tokens read the same row."""
        flat = self._flat()
        return flat.shape[-1] == count and bool((flat == flat[0, 0]).all())

    def _flat(self) -> Tensor:
        return (
            self.indices.reshape(-1, self.indices.shape[-1]) if self.indices.ndim else self.indices.reshape(1, 1)
        )


class _LookupRecorder(TorchFunctionMode):
    """Records every embedding lookup. Hooks on modules would miss offsets that modules add themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups: list[tuple[Tensor, Tensor]] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if func is nn.functional.embedding:
            indices = args[0] if args else given["input"]
            weight = args[1] if len(args) > 1 else given["weight"]
            self.lookups.append((weight, indices.detach().clone().cpu()))
        return func(*args, **given)


def find_lookups(model: nn.Module) -> tuple[Tensor, list[Lookup]]:
    """Run a few tokens through the model; return their ids, (tokens,), and the tables read, each once, in order.

    The ids decrease, so that the word table is not mistaken for the position table.
    """
    inputs = {name: value.flip(-1) if "ids" in name else value for name, value in make_probe(model).items()}
    ids = inputs["input_ids"][0].cpu()
    with torch.no_grad(), _LookupRecorder() as recorder:
        try:
            model(**inputs)
        except (IndexError, KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            line = first_line(error)
            raise InputError(
                f"{type(model).__name__} does not run on a few tokens of its vocabulary, so its tables cannot be "
                f"found. ({line})"
            ) from error
    names = {id(parameter): name for name, parameter in (*model.named_buffers(), *model.named_parameters())}
    tables_read: dict[int, Lookup] = {}
    for weight, indices in recorder.lookups:
        tables_read.setdefault(id(weight), Lookup(names.get(id(weight), "(unnamed)"), weight, indices))
    return ids, list(tables_read.values())


@dataclass(frozen=True, eq=False)
class ModelTables:
    """The embedding tables of a model on the CPU, in float32 (exact for bfloat16 and float16).

    `names` are the names of the parameters by role: words, positions, segments, relative.
    """

    model: nn.Module
    tokenizer: Any  # or None
    words: Tensor  # (vocabulary, dim), every row, including special and unused tokens
    positions: Tensor | None  # (positions, dim), row p is position p: rows that no token reads are dropped
    segments: Tensor | None  # (segments, dim)
    units: (
        pd.DataFrame
    )  # one row per row of `words`: id, unit (in the vocabulary), text (decoded), name (for display), ...
    names: dict[str, str]
    dropped: int = 0  # rows before position 0 (RoBERTa and OPT: 2)
    position_kind: str = "table"  # or rotary, relative bias, ALiBi, none
    notes: tuple[str, ...] = ()  # messages on what was dropped or is missing

    @classmethod
    def of(cls, model: nn.Module, tokenizer: Any = None) -> ModelTables:
        """Find the tables of a loaded model by recording what it reads for a few tokens."""
        check_text_model(model)
        ids, lookups = find_lookups(model)
        words = next((each for each in lookups if each.is_of(ids)), None)
        if words is None:
            raise InputError(f"{type(model).__name__}: no table is read by token ids.")
        count, others = len(ids), [each for each in lookups if each is not words and not each.by_pair]
        positions = next((each for each in others if each.offset(count) is not None), None)
        segments = next((each for each in others if each is not positions and each.is_constant(count)), None)
        relative = next((each for each in lookups if each.by_pair), None)
        dropped = (positions.offset(count) or 0) if positions else 0
        roles = {"words": words, "positions": positions, "segments": segments, "relative": relative}
        names = {role: lookup.name for role, lookup in roles.items() if lookup}
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
            token_units(tokenizer, len(vectors)),
            names,
            dropped,
            kind,
            notes,
        )

    def by_role(self) -> dict[str, Tensor]:
        """Return the tables that the model has: words, positions, segments."""
        tables = {"words": self.words, "positions": self.positions, "segments": self.segments}
        return {role: table for role, table in tables.items() if table is not None}

    def row_names(self, role: str) -> list[str]:
        """Return names for the rows of a table: readable tokens for words, else numbers from 0."""
        if role == "words":
            return list(self.units["name"])
        return [str(number) for number in range(len(self.by_role()[role]))]


def check_text_model(model: nn.Module) -> None:
    """Raise if the model has no table of token embeddings."""
    get_table = getattr(model, "get_input_embeddings", None)
    try:
        table = get_table() if get_table else None
    except NotImplementedError:
        table = None
    if not isinstance(getattr(table, "weight", None), Tensor) or not getattr(model.config, "vocab_size", None):
        raise InputError(
            f"{type(model).__name__} has no table of token embeddings; give a text model, such as minilm-l6."
        )


def _vectors(lookup: Lookup) -> Tensor:
    return lookup.weight.detach().to("cpu", torch.float32).clone()


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
        notes.append(POSITION_NOTES[kind].format(name=model, table=names.get("relative")))
    if dropped:
        rows = "row of the position table is" if dropped == 1 else f"{dropped} rows of the position table are"
        notes.append(f"The first {rows} not used by any token and omitted: position 0 is row {dropped}.")
    if more:
        notes.append(f"Only the first position table is measured, {names['positions']}, not {', '.join(more)}.")
    if "segments" not in names:
        notes.append(f"{model} has no segment table.")
    return tuple(notes)
