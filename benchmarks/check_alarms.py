"""How often rules of `theodolite check --init` give a false alarm, and which planted changes they catch.

    python -m benchmarks.check_alarms --finetuned FOLDER

Documents run through the model once, and its states at three layers are kept. Surveys are made of them by the sums
and tables of any survey. Three counts, each of which 0 leaves out:

--parts   the corpus is split into disjoint parts; every ordered pair is a baseline, from which rules are proposed,
          and a fresh survey, which is checked
--splits  the same for random halves of one pool of documents
--planted-splits
          a changed model, tokenizer or corpus, on the documents of the baseline and on the other halves of splits
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

import theodolite
from benchmarks.results import Row
from benchmarks.runner import run_from_command_line
from theodolite.batch import Batch
from theodolite.checks.judge import judge
from theodolite.checks.proposal import propose_rules
from theodolite.checks.result import CheckResult
from theodolite.checks.subject import open_subject
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.text_corpus import open_corpus
from theodolite.measures.intrinsic_dimension import twonn
from theodolite.measures.spectrum import eigenvalues
from theodolite.models.layers import Layer
from theodolite.sources.rows import locate_rows
from theodolite.sources.units import Units
from theodolite.state.pilot import Pilot
from theodolite.state.state import State
from theodolite.statistics.fold import LayerFold
from theodolite.statistics.frame import Frame
from theodolite.statistics.unit_groups import FREQUENT
from theodolite.studies.text_model import TextModel, load_text_model
from theodolite.surveys.survey import Survey
from theodolite.tables.curves import curve_table
from theodolite.tables.layer_row import make_layer_row
from theodolite.tables.shape import Shape, spectral_numbers
from theodolite.tables.tables import SurveyTables

ALL = (0,)
"""The cells of the population: no position is kept apart."""
LAYERS = (0, 3, 6)
SAMPLE, TWONN_SAMPLE = 1024, 512
"""Fewer vectors than a survey has, for speed: the limits that come from them are wider."""
POPULATIONS = ["all"]


@dataclass(frozen=True)
class States:
    """The states of a pool of documents: by layer (positions, dim), and of each position document and token id."""

    layers: dict[int, torch.Tensor]
    document: NDArray[np.int64]
    position: NDArray[np.int64]
    token: NDArray[np.int64]
    special: frozenset[int]
    documents: int
    corpus: str = ""  # other texts of the same documents have another name

    def of(self, documents: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of these documents."""
        return np.flatnonzero(np.isin(self.document, documents))


def read_documents(corpus: str, count: int, words: int) -> list[str]:
    """Return the first words of each of the first documents of a corpus."""
    texts = (text for _, text in open_corpus(corpus, CorpusOptions(min_words=8, limit=count)).documents())
    return [" ".join(text.split()[:words]) for text in texts]


def read_states(model: TextModel, texts: list[str], batch: int = 32) -> States:
    """Run all documents through the model; a BERT model's `hidden_states` are the layers of a survey."""
    kept: list[list[torch.Tensor]] = []
    tokens, documents, positions = [], [], []
    order = np.argsort([len(text) for text in texts])
    for start in range(0, len(texts), batch):
        chosen = order[start : start + batch]
        given = model.tokenizer([texts[one] for one in chosen], return_tensors="pt", padding=True, truncation=True)
        with torch.inference_mode():
            states = model.network(**given, output_hidden_states=True).hidden_states
        mask = given["attention_mask"].bool()
        kept.append([states[layer][mask].float() for layer in LAYERS])
        tokens.append(given["input_ids"][mask].numpy())
        documents.append(np.repeat(chosen, mask.sum(1).numpy()))
        positions.append(np.concatenate([np.arange(int(length)) for length in mask.sum(1)]))
    return States(
        dict(zip(LAYERS, (torch.cat(parts) for parts in zip(*kept, strict=True)), strict=True)),
        np.concatenate(documents),
        np.concatenate(positions),
        np.concatenate(tokens),
        frozenset(model.tokenizer.all_special_ids),
        len(texts),
    )


def make_survey(states: States, documents: NDArray[np.int64], model: str = "model") -> Survey:
    """Return the survey of some documents of the pool, from the sums that `theodolite.survey` makes."""
    chosen = states.of(documents)
    digest = sha256(np.sort(documents).tobytes() + states.corpus.encode()).hexdigest()
    key = int(digest[:16], 16)
    places = locate_rows(
        key,
        document=np.searchsorted(np.sort(documents), states.document[chosen]),
        window=0,
        position=states.position[chosen],
        unit=states.token[chosen],
        context=np.arange(len(chosen), dtype=np.uint64),
    )
    codes, counts = np.unique(states.token[chosen], return_counts=True)
    frequent = tuple(int(code) for code in codes[np.argsort(-counts)][:FREQUENT])
    special = [int(code) for code in codes if int(code) in states.special]
    folds, layers, rows, jackknife = {}, [], [], []
    for index, whole in states.layers.items():
        x = whole[torch.from_numpy(chosen)]
        frame = Frame(
            x[:1024].median(0).values, separate_first=False, separate_massive=False, sample_size=SAMPLE,
            frequent=frequent,
        )  # fmt: skip
        fold = folds[index] = LayerFold(frame)
        for start in range(0, len(x), 4096):
            part = torch.arange(start, min(start + 4096, len(x)))
            fold.update(Batch(index, x[part], places.take(part)))
        name = "embeddings" if not index else f"block {index}"
        layers.append(Layer(index, name, int(x.shape[1]), index, units=True))
        row, *_, estimates = make_layer_row(fold, ALL, special=special, shape=measure_few(fold))
        rows.append({"layer": index, "layer_name": name, "population": "all", **row})
        jackknife.append((index, "all", estimates))
    state = State(folds, Units("id"), positions=len(chosen))
    table = pd.DataFrame(rows)
    none = pd.DataFrame()
    jackknifes = curve_table("jackknife", jackknife)
    tables = SurveyTables(table, none, none, none, none, none, jackknifes, none, none, none, none, none)
    settings = {"units": "id", "max_tokens": 512, "populations": POPULATIONS, "sample_size": SAMPLE}
    facts = {
        "schema": 1,
        "model": {"name": model, "sha256": model, "architecture": "BertModel", "causal": False},
        "corpus": {"name": "pool", "sha256": digest, "documents": len(documents), "read": len(documents)},
        "identity": {"corpus": {"sha256": digest}, "settings": settings},
        "units": "id",
        "populations": POPULATIONS,
        "layers": [asdict(layer) for layer in layers],
        "settings": settings,
        "counts": {"positions": len(chosen), "types": len(codes), "nonfinite": 0},
        "files": {},
    }
    return Survey(facts, tables, state, Pilot({}, {}))


def measure_few(fold: LayerFold) -> Shape:
    """Return the numbers of the spectrum and TwoNN, without the other measures that need the sample."""
    spectrum = eigenvalues(fold.scatter.covariance(ALL, None)[1])
    sample = fold.sample.population(ALL)
    dimension = twonn(sample["vector"][:TWONN_SAMPLE], contexts=sample["context"][:TWONN_SAMPLE])
    numbers = spectral_numbers(spectrum) | {"twonn": dimension.keep90, "twonn_se": dimension.se}
    return Shape([("", numbers)], {}, pd.DataFrame(), pd.DataFrame())


def split(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the documents of two random halves."""
    order = np.random.default_rng(seed).permutation(count)
    return order[: count // 2], order[count // 2 :]


POOL: dict[str, States] = {}
"""States by name of the model, which worker processes inherit."""


def check_split(seed: int, changed: str = "model") -> list[str]:
    """Check the second half of a split against the first; return the rules that are broken."""
    first, second = split(POOL["model"].documents, seed)
    baseline = make_survey(POOL["model"], first)
    return list_broken(theodolite.check(make_survey(POOL[changed], second, changed), baseline))


def list_broken(result: CheckResult) -> list[str]:
    """Return the names of the broken rules."""
    return [outcome.rule.title for outcome in result.outcomes if outcome.broken]


def quantize(model: TextModel, bits: int, per_row: bool) -> TextModel:
    """Round the weights of all matrices to a grid of 2^bits - 1 values, one grid per matrix or per row."""
    steps = 2 ** (bits - 1) - 1
    with torch.no_grad():
        for weight in model.network.parameters():
            if weight.ndim == 2:
                size = weight.abs().amax(1, keepdim=True) if per_row else weight.abs().max()
                scale = (size / steps).clamp(min=1e-12)
                weight.copy_((weight / scale).round() * scale)
    return model


def halve_precision(model: TextModel) -> TextModel:
    """Round all weights to half precision."""
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.copy_(weight.half().float())
    return model


def keep_case(model: TextModel) -> TextModel:
    """Return the model with a tokenizer that does not lower case, so that names become [UNK] or pieces."""
    backend = model.tokenizer.backend_tokenizer
    from tokenizers import normalizers

    backend.normalizer = normalizers.BertNormalizer(lowercase=False)
    return model


def plant(name: str, finetuned: str, pool: list[str]) -> Iterator[tuple[str, States]]:
    """Yield each planted change with the states of the pool after it."""
    yield "weights in half precision", read_states(halve_precision(load_text_model(name)), pool)
    yield "weights in 8 bits, by row", read_states(quantize(load_text_model(name), 8, True), pool)
    yield "weights in 8 bits, by matrix", read_states(quantize(load_text_model(name), 8, False), pool)
    yield "weights in 6 bits, by row", read_states(quantize(load_text_model(name), 6, True), pool)
    yield "weights in 4 bits, by row", read_states(quantize(load_text_model(name), 4, True), pool)
    yield "a tokenizer that keeps case", read_states(keep_case(load_text_model(name)), pool)
    if finetuned:
        yield "fine-tuned", read_states(load_text_model(finetuned), pool)
    cut = [" ".join(text.split()[: len(text.split()) // 2]) for text in pool]
    yield "documents cut to half", replace(read_states(load_text_model(name), cut), corpus="cut")


def run(
    *,
    quick: bool = False,
    parts: int = 46,
    documents_of_part: int = 150,
    splits: int = 1000,
    planted_splits: int = 20,
    workers: int = 1,
    documents: int = 400,
    words: int = 24,
    finetuned: str = "",
    model: str = "minilm-l6",
    corpus: str = "chitchat",
) -> dict[str, Any]:
    """Count false alarms over splits of the pool, and the planted changes that are caught."""
    if quick:
        parts, documents_of_part, splits, planted_splits, documents, words = 2, 60, 2, 1, 120, 12
    torch.set_num_threads(1)
    pool = read_documents(corpus, documents, words)
    POOL["model"] = read_states(load_text_model(model), pool)
    found: dict[str, Any] = {"documents": len(pool), "positions": len(POOL["model"].document)}
    rows = []
    if parts:
        found["pairs"] = check_pairs(load_text_model(model), corpus, parts, documents_of_part, words)
        one = found["pairs"]
        share = f"{one['alarms']} of {one['pairs']} pairs"
        rows.append(Row("false alarms, disjoint parts", one["alarms"] / one["pairs"], 0.05, share).to_dict())
    if splits:
        found |= count_alarms(splits, workers)
        share = f"{found['alarms']} of {splits} splits"
        rows.append(Row("false alarms", found["alarms"] / splits, 0.05, share).to_dict())
    if planted_splits:
        found["planted"] = dict(catch_changes(plant(model, finetuned, pool), planted_splits, workers))
        for what, one in found["planted"].items():
            same = f"same documents: {len(one['same documents'])} rules broken"
            rows.append(Row(f"caught: {what}", one["other documents"] / one["of"], None, same).to_dict())
    return {"rows": rows, **found}


def check_pairs(model: TextModel, corpus: str, parts: int, size: int, words: int) -> dict[str, Any]:
    """Check every part of a corpus against every other; return the pairs that break a rule."""
    states = read_states(model, read_documents(corpus, parts * size, words))
    order = np.random.default_rng(0).permutation(states.documents)
    subjects = [open_subject(make_survey(states, order[start::parts])) for start in range(parts)]
    each = states.documents // parts  # fewer than asked for if the corpus is small
    del states
    print(f"{parts} surveys of {each} documents", file=sys.stderr, flush=True)
    broken: list[list[str]] = []
    for baseline in subjects:
        rules, _ = propose_rules(baseline)
        for other in subjects:
            if other is not baseline:
                outcomes = judge(other, baseline, rules)
                broken.append([outcome.rule.title for outcome in outcomes if outcome.broken])
        print(f"{sum(map(bool, broken))} alarms in {len(broken)} pairs", file=sys.stderr, flush=True)
    return {
        "parts": parts,
        "documents": each,
        "pairs": len(broken),
        "alarms": sum(map(bool, broken)),
        "alarms_by_rule": dict(Counter(rule for one in broken for rule in one)),
    }


def count_alarms(splits: int, workers: int) -> dict[str, Any]:
    """Count the splits that break a rule."""
    started = time.perf_counter()
    broken = []
    with multiprocessing.get_context("fork").Pool(workers) as helpers:
        for one in helpers.imap_unordered(check_split, range(splits)):
            broken.append(one)
            if len(broken) % 50 == 0:
                print(f"{sum(map(bool, broken))} alarms in {len(broken)} splits", file=sys.stderr, flush=True)
    return {
        "splits": splits,
        "alarms": sum(map(bool, broken)),
        "alarms_by_rule": dict(Counter(rule for one in broken for rule in one)),
        "seconds": round(time.perf_counter() - started),
    }


def catch_changes(
    changes: Iterable[tuple[str, States]], splits: int, workers: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield for each change the rules that it breaks on the same documents, and how often on other documents."""
    first, second = split(POOL["model"].documents, 0)
    baseline = make_survey(POOL["model"], first)
    for what, states in changes:
        POOL["changed"] = states
        same = list_broken(theodolite.check(make_survey(states, first, what), baseline))
        with multiprocessing.get_context("fork").Pool(workers) as helpers:
            others = helpers.starmap(check_split, [(seed, "changed") for seed in range(splits)])
        yield what, {"same documents": same, "other documents": sum(map(bool, others)), "of": splits}
        print(f"{what}: {len(same)} rules, {sum(map(bool, others))} of {splits}", file=sys.stderr, flush=True)
    missing = [make_survey(POOL["model"], part[: len(part) // 2]) for part in (first, second)]
    same, other = (list_broken(theodolite.check(one, baseline)) for one in missing)
    yield "half of the documents missing", {"same documents": same, "other documents": int(bool(other)), "of": 1}


if __name__ == "__main__":
    run_from_command_line(
        run, __doc__, parts=46, documents_of_part=150, splits=1000, planted_splits=20, workers=1, documents=400,
        words=24, finetuned="",
    )  # fmt: skip
