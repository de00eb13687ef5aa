"""Comparing two models, or the layers of one, over the same text: the implementation of `theodolite bridge`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch
from torch import Tensor

from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.text_corpus import open_corpus
from theodolite.engines.progress import Listener, Progress
from theodolite.errors import InputError, MemoryLimitError, TheodoliteError
from theodolite.hashing import mix
from theodolite.sources.text.windows import choose_window_length
from theodolite.storage.files import write_tensors
from theodolite.storage.location import local_path
from theodolite.studies.bridge.positions import (
    DOCUMENT,
    HELD_SHARE,
    PLACES,
    Piece,
    PositionReader,
    Positions,
    choose_match,
    cut_pieces,
)
from theodolite.studies.bridge.spaces import (
    Maps,
    Pair,
    Space,
    SpaceSample,
    SpaceSums,
    cka_row,
    count_bytes,
    fit_maps,
    link_depths,
    neighbour_row,
)
from theodolite.studies.laboratory import Findings, check_laboratory_folder, make_facts
from theodolite.studies.text_model import TextModel, load_text_model
from theodolite.text import format_bytes, pluralize

MEMORY_SHARE = 0.5
"""Share of the available memory that sums may use by default."""
FEW = 10
"""Fewer held-out documents give a warning."""
FIGURE = "cka.png"
"""The heat map that the command line draws into the folder."""
POPULATIONS = ("without-sinks", "all")


def bridge(
    model: str | Path,
    other: str | Path | None = None,
    *,
    corpus: str | Path | Iterable[str],
    out: str | Path | None = None,
    save_map: str | Path | None = None,
    layers: str | Sequence[int] | None = None,
    layers_b: str | Sequence[int] | None = None,
    match: str = "auto",
    population: str = "without-sinks",
    neighbours: int = 10,
    sample_size: int = 2048,
    max_tokens: int | None = None,
    limit: int | None = None,
    field: str = "text",
    column: str = "text",
    memory: int | None = None,
    device: str = "cpu",
    dtype: str = "auto",
    dtype_b: str | None = None,
    revision: str | None = None,
    revision_b: str | None = None,
    trust_remote_code: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Measure how similar the layers of two models, or of one, are over the same positions of a corpus.

    One pass over the text: debiased linear CKA of all pairs of layers from exact sums; for layers of equal depth
    (of one model: consecutive layers) the best linear and orthogonal maps with R^2 on held-out documents, and on a
    sample of these the neighbours that both share, and recall of mapped vectors. `match` is token, word, document
    or auto. `layers_b` selects layers of the second model, by default as `layers`. `save_map` writes the map
    between the last two layers as safetensors: y = (x - mean_a) @ map + mean_b. Tables: cka, maps.
    """
    listener = listener or Listener()
    _check(other, population, neighbours, sample_size, layers_b, save_map)
    check_laboratory_folder(out, "bridge", overwrite=overwrite)
    opened = open_corpus(corpus, CorpusOptions(field=field, column=column, limit=limit), listener.say)
    opened.check_columns()
    shared: dict[str, Any] = {"device": device, "trust_remote_code": trust_remote_code, "listener": listener}
    loaded = [load_text_model(model, dtype=dtype, revision=revision, **shared)]
    if other is not None:
        loaded.append(load_text_model(other, dtype=dtype_b or dtype, revision=revision_b, **shared))
    readers, said = make_readers(
        loaded, (layers, layers if layers_b is None else layers_b), match, max_tokens, sinks=population == "all"
    )
    listener.say(said)
    made = Bridge(readers, sample_size, memory)
    for warning in made.warnings:
        listener.warn(warning)
    characters = sum(len(text) for _, text in opened.documents())
    documents = made.read(opened.documents(), characters, listener)
    listener.say("measuring")
    if documents["held_out"] < FEW:
        made.warnings.append(
            f"R^2, neighbours and recall come from {pluralize(documents['held_out'], 'document')} of "
            f"{documents['documents']:,}, since one in {HELD_SHARE} is held out; give more documents."
        )
        listener.warn(made.warnings[-1])
    tables, maps = made.measure(neighbours)
    if save_map is not None:
        _save_map(local_path(save_map, "bridge"), maps, loaded, tables["maps"])
    facts = make_facts(
        "bridge",
        loaded[0].facts,
        match=readers[0].match,
        population=population,
        neighbours=neighbours,
        sample_size=sample_size,
        max_tokens=readers[0].source.max_tokens,
        limit=limit,
    )
    facts |= {
        "model_b": loaded[-1].facts if other is not None else None,
        "layers": [layer.facts() for layer in readers[0].layers],
        "layers_b": [layer.facts() for layer in readers[1].layers] if other is not None else None,
        "corpus": {"name": opened.name, **documents},
        "matched": said,
        "positions": made.describe_positions(),
        "seconds": made.seconds,
        "populations": [population],
        "warnings": made.warnings,
    }
    found = Findings(facts, tables).save_if_asked(out, overwrite=overwrite)
    if out is not None:
        (Path(out) / FIGURE).unlink(missing_ok=True)  # of the results that were replaced
    return found


def make_readers(
    loaded: Sequence[TextModel],
    layers: Sequence[str | Sequence[int] | None],
    match: str,
    max_tokens: int | None,
    *,
    sinks: bool,
) -> tuple[list[PositionReader], str]:
    """Return a reader for each model, with windows of the same length, and how positions are matched."""
    chosen, said = choose_match(match, [each.tokenizer for each in loaded])
    length = min(choose_window_length(each.network.config, each.tokenizer, max_tokens) for each in loaded)
    readers = [
        PositionReader(each, match=chosen, layers=selection, max_tokens=length, sinks=sinks)
        for each, selection in zip(loaded, layers, strict=False)
    ]
    return readers, said


class Bridge:
    """The pass over the corpus: sums of pairs of layers and a sample of positions."""

    def __init__(self, readers: Sequence[PositionReader], sample_size: int, memory: int | None = None) -> None:
        self.readers = readers
        self.warnings = [
            f"Layers without one state per token of the text are left out: {', '.join(reader.left_out)}."
            for reader in readers
            if reader.left_out
        ]
        self.spaces = [[Space(side, layer.index) for layer in each.layers] for side, each in enumerate(readers)]
        self._names = {
            Space(side, layer.index): layer.name for side, each in enumerate(readers) for layer in each.layers
        }
        first, last = self.spaces[0], self.spaces[-1]
        if len(readers) == 1 and len(first) == 1:
            raise InputError("--layers selects one layer of one model (got no second model); select at least two.")
        links = link_depths(len(first), len(last) if len(readers) > 1 else None)
        self.links: list[Pair] = [(first[x], last[y]) for x, y in links]
        own: list[Pair] = [(space, space) for spaces in self.spaces for space in spaces]
        across = [(x, y) for x in first for y in last] if len(readers) > 1 else list(combinations(first, 2))
        split = {*self.links, *((x, x) for x, _ in self.links)}
        self.pairs = self._choose_pairs(across, own, split, memory)
        self.sums = SpaceSums([*own, *self.pairs], split)
        self.sample = SpaceSample(sample_size, {space for link in self.links for space in link})
        self.matched = 0
        self.seconds = {"forward": 0.0, "sums": 0.0}

    def _choose_pairs(
        self, across: list[Pair], own: list[Pair], split: set[Pair], memory: int | None
    ) -> list[Pair]:
        """Return all pairs of layers if their sums fit in memory, else those of equal depth."""
        dims = {
            Space(side, layer.index): layer.dim for side, each in enumerate(self.readers) for layer in each.layers
        }
        allowed = memory if memory is not None else int(MEMORY_SHARE * psutil.virtual_memory().available)
        need, least = (count_bytes([*own, *pairs], split, dims) for pairs in (across, self.links))
        if need <= allowed:
            return across
        if least > allowed:
            raise MemoryLimitError(
                f"The sums of {len(self.links)} pairs of layers need {format_bytes(least)} of memory, and "
                f"{format_bytes(allowed)} may be used; select fewer --layers."
            )
        self.warnings.append(
            f"The sums of all {len(across)} pairs of layers need {format_bytes(need)} of memory, and "
            f"{format_bytes(allowed)} may be used: CKA is computed for {len(self.links)} of them, those that are "
            "mapped. Select fewer --layers to have all pairs."
        )
        return self.links

    def read(self, documents: Iterable[tuple[int, str]], characters: int, listener: Listener) -> dict[str, int]:
        """Read the documents, which have this many characters, through all models; return their counts."""
        counts, gone, begin = {"documents": 0, "held_out": 0}, 0, perf_counter()
        for pieces in cut_pieces(documents, whole=self.readers[0].match == DOCUMENT):
            start = perf_counter()
            found = [reader.read(pieces) for reader in self.readers]
            middle = perf_counter()
            self._add(pieces, found)
            self.seconds["forward"] += middle - start
            self.seconds["sums"] += perf_counter() - middle
            counts["documents"] += sum(piece.number == 0 for piece in pieces)
            counts["held_out"] += sum(piece.number == 0 and piece.held for piece in pieces)
            gone += sum(len(piece.text) for piece in pieces)
            listener.progress(Progress(min(gone / characters, 1.0), self.matched, perf_counter() - begin))
        if not self.matched:
            raise InputError(
                "CORPUS has no position that can be matched: no token of it is text for all models, or all are "
                "sinks."
            )
        return counts

    def _add(self, pieces: Sequence[Piece], found: Sequence[Positions]) -> None:
        keys = found[0].keys
        for each in found[1:]:
            keys = np.intersect1d(keys, each.keys, assume_unique=True)
        if not len(keys):
            return
        self.matched += len(keys)
        rows = [torch.from_numpy(np.searchsorted(each.keys, keys)) for each in found]
        states = {
            Space(side, layer): part[rows[side]]
            for side, each in enumerate(found)
            for layer, part in each.states.items()
        }
        piece, place = keys // PLACES, keys % PLACES
        held = torch.tensor([each.held for each in pieces])[torch.from_numpy(piece)]
        self.sums.update(states, held)
        document, number = (
            np.array([getattr(each, name) for each in pieces])[piece] for name in ("document", "number")
        )
        order = torch.from_numpy((mix(document, number, place) >> np.uint64(1)).astype(np.int64))
        self.sample.update(order[held], {space: states[space][held] for space in self.sample.rows})

    def describe_positions(self) -> dict[str, Any]:
        """Return the number of matched positions, and what each model has read and left out."""
        return {"matched": self.matched, "models": [reader.counts for reader in self.readers]}

    def measure(self, neighbours: int) -> tuple[dict[str, pd.DataFrame], list[Maps]]:
        """Return the tables, and the maps of the rows of the table `maps`."""
        cells = [(*pair, cka_row(self.sums, *pair)) for pair in self.pairs]
        if len(self.readers) == 1:  # the table of one model has both triangles and the diagonal
            cells += [(y, x, row) for x, y, row in cells]
            cells += [(x, x, cka_row(self.sums, x, x)) for x in self.spaces[0]]
            cells.sort(key=lambda cell: cell[:2])
        maps = [fit_maps(self.sums, *link) for link in self.links]
        linked = [
            self._head(x, y)
            | found.row
            | neighbour_row(self.sample.rows[x], self.sample.rows[y], found, neighbours)
            for (x, y), found in zip(self.links, maps, strict=True)
        ]
        cka = [self._head(x, y) | row for x, y, row in cells]
        return {"cka": pd.DataFrame(cka), "maps": pd.DataFrame(linked)}, maps

    def _head(self, x: Space, y: Space) -> dict[str, Any]:
        return {
            "layer_a": x.layer,
            "layer_a_name": self._names[x],
            "layer_b": y.layer,
            "layer_b_name": self._names[y],
        }


def _save_map(path: Path, maps: Sequence[Maps], loaded: Sequence[TextModel], table: pd.DataFrame) -> None:
    """Write the map of the last pair of layers, with what is known about it."""
    found, row = maps[-1], table.iloc[-1]
    if found.linear is None or found.procrustes is None:
        raise TheodoliteError(f"--save-map: there is no map to save, because {row['map_reason']}; give more text.")
    tensors: dict[str, Tensor] = {
        "mean_a": found.linear.mean_x,
        "map": found.linear.matrix,
        "mean_b": found.linear.mean_y,
        "procrustes": found.procrustes.matrix,
    }
    about = {name: None if pd.isna(value) else value for name, value in row.items()}
    metadata = {
        "model_a": str(loaded[0].facts["name"]),
        "model_b": str(loaded[-1].facts["name"]),
        "use": "y = (x - mean_a) @ map + mean_b",
        "measured": json.dumps(about, default=lambda value: value.item()),
    }
    write_tensors(path, {name: tensor.float().contiguous() for name, tensor in tensors.items()}, metadata)


def _check(
    other: str | Path | None,
    population: str,
    neighbours: int,
    sample_size: int,
    layers_b: str | Sequence[int] | None,
    save_map: str | Path | None,
) -> None:
    if population not in POPULATIONS:
        raise InputError(f"--population {population!r} is not one of {', '.join(POPULATIONS)}.")
    if neighbours < 1:
        raise InputError(f"--neighbours must be at least 1 (got {neighbours}).")
    if sample_size < neighbours + 2:
        raise InputError(
            f"--sample-size must be at least {neighbours + 2} for {neighbours} neighbours (got {sample_size})."
        )
    for option, value in (("--layers-b", layers_b), ("--save-map", save_map)):
        if other is None and value is not None:
            raise InputError(f"{option} requires a second model (got one); give its name or omit {option}.")
    if save_map is not None and Path(save_map).suffix != ".safetensors":
        raise InputError(f"--save-map {save_map}: the name must end in .safetensors.")
