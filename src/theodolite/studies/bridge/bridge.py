"""Comparing two models, or the layers of one, over the same text: the implementation of `theodolite bridge`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.text_corpus import open_corpus
from theodolite.engines.progress import Listener
from theodolite.environment import available_memory
from theodolite.errors import InputError, MemoryLimitError, TheodoliteError
from theodolite.models.layers import Layer
from theodolite.sources.text.windows import choose_window_length
from theodolite.storage.files import write_tensors
from theodolite.storage.location import local_path
from theodolite.studies.bridge.positions import GROUPS, HELD_SHARE, PositionReader, choose_match
from theodolite.studies.bridge.reading import Checkpoint, Reading, identify
from theodolite.studies.bridge.spaces import (
    Maps,
    Pair,
    Space,
    SpaceSample,
    SpaceSums,
    cka_rows,
    count_bytes,
    fit_maps,
    link_depths,
    neighbour_row,
)
from theodolite.studies.laboratory import Findings, check_laboratory_folder, make_facts
from theodolite.studies.text_model import TextModel, load_text_model
from theodolite.surveys.options import parse_size
from theodolite.text import format_bytes, pluralize

MEMORY_SHARE = 0.5
"""Share of the available memory that sums may use by default."""
FEW = 10
"""Fewer held-out documents give a warning."""
FIGURE = "cka.png"
"""The heat map that the command line draws into the folder."""
POPULATIONS = ("without-sinks", "all")
BY_GROUP, ALL_PAIRS, LINKED = "by-group", "all", "linked"
"""Which sums are kept: of all pairs by group of documents, of all pairs, or of the pairs that are mapped."""


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
    memory: int | str | None = None,
    device: str | None = None,
    dtype: str = "auto",
    dtype_b: str | None = None,
    revision: str | None = None,
    revision_b: str | None = None,
    trust_remote_code: bool = False,
    keep_sums: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    listener: Listener | None = None,
    checkpoint_every: float = 60.0,
) -> Findings:
    """Measure how similar the layers of two models, or of one, are over the same positions of a corpus.

    One pass over the text: debiased linear CKA of all pairs of layers from exact sums; for layers of equal depth
    (of one model: consecutive layers) the best linear and orthogonal maps with R^2 on held-out documents, and on a
    sample of these the neighbours that both share, and recall of mapped vectors. `match` is token, word, sentence,
    document or auto. `layers_b` selects layers of the second model, by default as `layers`. `save_map` writes the
    map between the last two layers as safetensors: y = (x - mean_a) @ map + mean_b. `resume` continues an
    interrupted run from the checkpoint in `out`, which is written at most every `checkpoint_every` seconds.
    `keep_sums` stores the sums, so that `merge_bridges` can add those of other documents. Tables: cka, maps.
    """
    listener = listener or Listener()
    _check(other, population, neighbours, sample_size, layers_b, save_map)
    allowed = None if memory is None else parse_size(memory)
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
    made = Bridge([reader.layers for reader in readers], sample_size, allowed, warnings=_left_out(readers))
    for warning in made.warnings:
        listener.warn(warning)
    digest, characters = _scan(opened.documents())
    settings = {
        "match": readers[0].match,
        "population": population,
        "neighbours": neighbours,
        "sample_size": sample_size,
        "max_tokens": readers[0].source.max_tokens,
    }
    facts = make_facts("bridge", loaded[0].facts, **settings, limit=limit)
    facts |= {
        "model_b": loaded[-1].facts if other is not None else None,
        "layers": [layer.facts() for layer in readers[0].layers],
        "layers_b": [layer.facts() for layer in readers[1].layers] if other is not None else None,
        "matched": said,
        "sums": {"pairs": made.plan, "kept": keep_sums},
    }
    checkpoint = Checkpoint(out, identify(facts) | {"corpus": digest}, checkpoint_every)
    reading = Reading(made, readers)
    if resume:
        listener.say(reading.load(checkpoint))
    reading.read(opened.documents(), characters, listener, checkpoint)
    facts["corpus"] = {"name": opened.name, "sha256": digest, **reading.documents}
    facts |= reading.describe()
    found, maps = finish(made, facts, listener)
    if save_map is not None:
        _save_map(local_path(save_map, "bridge"), maps, loaded, found.tables["maps"])
    checkpoint.remove()
    found.save_if_asked(out, overwrite=True)  # the folder was checked before the run
    if out is not None:
        (Path(out) / FIGURE).unlink(missing_ok=True)  # of the results that were replaced
    return found


def finish(made: Bridge, facts: dict[str, Any], listener: Listener) -> tuple[Findings, list[Maps]]:
    """Measure everything from the sums; return the findings and the maps of the rows of the table `maps`."""
    listener.say("measuring")
    held, documents = (facts["corpus"][name] for name in ("held_out", "documents"))
    if held < FEW:
        made.warnings.append(
            f"R^2, neighbours and recall come from {pluralize(held, 'document')} of {documents:,}, since one in "
            f"{HELD_SHARE} is held out; give more documents."
        )
        listener.warn(made.warnings[-1])
    tables, maps = made.measure(facts["settings"]["neighbours"])
    facts["warnings"] = made.warnings
    return Findings(facts, tables, made.state() if facts["sums"]["kept"] else {}), maps


def _scan(documents: Iterable[tuple[int, str]]) -> tuple[str, int]:
    """Return the sha256 of the documents, each after its length, and the number of their characters."""
    digest, characters = sha256(), 0
    for _, text in documents:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
        characters += len(text)
    return digest.hexdigest(), characters


def _left_out(readers: Sequence[PositionReader]) -> list[str]:
    return [
        f"Layers without one state per token of the text are left out: {', '.join(reader.left_out)}."
        for reader in readers
        if reader.left_out
    ]


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
    """Sums of pairs of layers and a sample of positions, and what they give."""

    def __init__(
        self,
        layers: Sequence[Sequence[Layer]],
        sample_size: int,
        memory: int | None = None,
        *,
        plan: str | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        self.warnings = list(warnings)
        self.spaces = [[Space(side, layer.index) for layer in each] for side, each in enumerate(layers)]
        known = {Space(side, layer.index): layer for side, each in enumerate(layers) for layer in each}
        self._names = {space: layer.name for space, layer in known.items()}
        first, last = self.spaces[0], self.spaces[-1]
        if len(layers) == 1 and len(first) == 1:
            raise InputError("--layers selects one layer of one model (got no second model); select at least two.")
        links = link_depths(len(first), len(last) if len(layers) > 1 else None)
        self.links: list[Pair] = [(first[x], last[y]) for x, y in links]
        across = [(x, y) for x in first for y in last] if len(layers) > 1 else list(combinations(first, 2))
        plans = self._make_plans(across)
        self.plan = plan or self._choose_plan(plans, {space: layer.dim for space, layer in known.items()}, memory)
        self.sums = SpaceSums(plans[self.plan])
        self.pairs = self.links if self.plan == LINKED else across
        self.sample = SpaceSample(sample_size, {space for link in self.links for space in link})

    def _make_plans(self, across: Sequence[Pair]) -> dict[str, dict[Pair, int]]:
        """Return the parts in which the sums of each pair may be kept, the largest plan first."""
        own: list[Pair] = [(space, space) for spaces in self.spaces for space in spaces]
        split = {*self.links, *((x, x) for x, _ in self.links)}

        def halves(pairs: Sequence[Pair]) -> dict[Pair, int]:
            return {pair: 2 if pair in split else 1 for pair in (*own, *pairs)}

        by_group = dict.fromkeys((*own, *across), GROUPS)
        return {BY_GROUP: by_group, ALL_PAIRS: halves(across), LINKED: halves(self.links)}

    def _choose_plan(
        self, plans: Mapping[str, dict[Pair, int]], dims: Mapping[Space, int], memory: int | None
    ) -> str:
        """Return the first plan whose sums fit in memory, and warn about what the others would have."""
        allowed = memory if memory is not None else int(MEMORY_SHARE * available_memory())
        need = {name: count_bytes(parts, dims) for name, parts in plans.items()}
        may = f"and {format_bytes(allowed)} may be used"
        if need[BY_GROUP] <= allowed:
            return BY_GROUP
        if need[ALL_PAIRS] <= allowed:
            self.warnings.append(
                f"The sums by group of documents need {format_bytes(need[BY_GROUP])} of memory, {may}: CKA has no "
                "error bars. Select fewer --layers to have them."
            )
            return ALL_PAIRS
        if need[LINKED] > allowed:
            raise MemoryLimitError(
                f"The sums of {len(self.links)} pairs of layers need {format_bytes(need[LINKED])} of memory, "
                f"{may}; select fewer --layers."
            )
        self.warnings.append(
            f"The sums of all {len(plans[ALL_PAIRS]) - len(dims)} pairs of layers need "
            f"{format_bytes(need[ALL_PAIRS])} of memory, {may}: CKA is computed for {len(self.links)} of them, "
            "those that are mapped. Select fewer --layers to have all pairs."
        )
        return LINKED

    def merge(self, other: Bridge) -> None:
        """Add the sums and the sample of other documents."""
        self.sums.merge(other.sums)
        self.sample.merge(other.sample)

    def state(self) -> dict[str, Tensor]:
        """Return the sums and the sample by name."""
        return {**self.sums.state(), **self.sample.state()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Replace the sums and the sample by those of a state with the same plan."""
        self.sums.load(state)
        self.sample.load(state)

    def measure(self, neighbours: int) -> tuple[dict[str, pd.DataFrame], list[Maps]]:
        """Return the tables, and the maps of the rows of the table `maps`."""
        pairs = list(self.pairs)
        if len(self.spaces) == 1:  # the table of one model has both triangles and the diagonal
            pairs += [(x, x) for x in self.spaces[0]]
        cells = [(*pair, row) for pair, row in zip(pairs, cka_rows(self.sums, pairs), strict=True)]
        if len(self.spaces) == 1:
            cells = sorted(cells + [(y, x, row) for x, y, row in cells if x != y], key=lambda cell: cell[:2])
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
