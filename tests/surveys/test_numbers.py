"""A complete survey against an oracle that keeps every vector: all columns, all layers, three populations."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.listeners import RecordingListener
from tests.shared import slow
from tests.small_models import POSITIONS, blocks_of, load, save, sentences
from tests.surveys.everything import FORWARD, SAME_STATES, Tolerance, Vectors, check, everything

from theodolite.batch import Batch
from theodolite.errors import TheodoliteError
from theodolite.sources.text import source as text_source
from theodolite.surveys import text_survey as text_surveys
from theodolite.surveys.api import survey as whole_survey

survey = partial(whole_survey, sample_size=64)  # neighbours of more take longer than all the rest
_WRITTEN = sentences(32, seed=21)
CORPUS = [
    *_WRITTEN,
    *_WRITTEN[:5],  # a tenth of the documents twice
    " ".join(_WRITTEN[10:16]),  # several windows
    *("it", "of the", "a river"),  # beside long ones, half of a batch is padding
    "ß [MASK]",  # units seen once
]


@contextmanager
def states_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], dict[int, Vectors]]]:
    """Keep the states that a survey folds, by key, so that only its sums can differ."""
    kept: dict[int, dict[int, tuple[Any, int, bool]]] = {}
    run = text_source.TextSource.run

    def tee(self: Any, prepared: Any, sink: Any) -> None:
        def both(batch: Batch) -> None:
            places, states = batch.places, batch.states.double().numpy()
            for key, unit, first, state in zip(
                places.key.tolist(), places.unit.tolist(), places.first.tolist(), states, strict=True
            ):
                kept.setdefault(batch.layer, {})[key] = (state, unit, first)
            sink(batch)

        run(self, prepared, both)

    def vectors(found: Any) -> dict[int, Vectors]:
        names = [unit.key for unit in found.state.units.known]
        # The pilot ran some of these windows before the fold did; a key is kept once.
        return {
            layer: Vectors(
                np.stack([state for state, _, _ in rows.values()]),
                np.array([names[unit] for _, unit, _ in rows.values()], dtype=object),
                np.array([first for _, _, first in rows.values()]),
            )
            for layer, rows in kept.items()
        }

    with monkeypatch.context() as patch:
        patch.setattr(text_source.TextSource, "run", tee)
        yield vectors


@pytest.mark.parametrize("family", ["bert", "llama", slow("roberta"), slow("gpt2")])
def test_every_column(small_model: Any, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_surveys, "SHARD_CHARS", 2000)
    with states_kept(monkeypatch) as vectors:
        found = survey(small_model(family), CORPUS, batch_tokens=600)
    check(found, everything(*load(small_model(family)), family, CORPUS, POSITIONS), FORWARD)
    check(found, vectors(found), SAME_STATES)
    assert found.facts["counts"]["shards"] > 1
    assert (found.tokens["n"] == 1).any()


@pytest.mark.parametrize("family", ["gpt2", slow("bert"), slow("roberta"), slow("llama")])
def test_half_a_batch_of_padding(small_model: Any, family: str) -> None:
    documents = [text for pair in zip(_WRITTEN[:20], ["it", "of", "a", "the"] * 5, strict=True) for text in pair]
    found = survey(small_model(family), documents, batch_tokens=10**6)
    check(found, everything(*load(small_model(family)), family, documents, POSITIONS))


def altered(family: str, small_model: Any, folder: Path, change: Callable[[Any], None]) -> Path:
    model, tokenizer = load(small_model(family))
    with torch.no_grad():
        change(model)
    save(model, tokenizer, folder)
    return folder


def far_coordinate(model: Any) -> None:
    """Put one coordinate at 3,000 from the first block on."""
    model.h[0].mlp.c_proj.bias[5] += 3000


def long_first_position(model: Any) -> None:
    """Make first positions 150 times as long as the others, as attention sinks are."""
    model.wpe.weight[0] *= 1500  # of a length like the rest of the sum at layer 1


@pytest.mark.parametrize("change", [far_coordinate, long_first_position])
def test_hard_states(small_model: Any, tmp_path: Path, change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = altered("gpt2", small_model, tmp_path / "model", change)
    with states_kept(monkeypatch) as vectors:
        found = survey(folder, CORPUS, batch_tokens=600)
    check(found, vectors(found), SAME_STATES)
    check(found, everything(*load(folder), "gpt2", CORPUS, POSITIONS), Tolerance(state=2e-6, ratio=1e-5, fit=0.1))
    norms = found.layers.query("layer == 1").set_index("population")
    if change is far_coordinate:
        assert norms.loc["all", "norm_min"] > 2900
    else:
        assert norms.loc["all", "massive"] > 0
        assert norms.loc["all", "norm_max"] > 20 * norms.loc["without-massive", "norm_max"]
        assert norms.loc["without-first", "massive"] == 0


def test_float32_sums_of_raw_vectors_would_lose_the_variance(small_model: Any, tmp_path: Path) -> None:
    # The tempting algorithm: E|x|^2 - |E x|^2, summed as the states come.
    folder = altered("gpt2", small_model, tmp_path / "model", far_coordinate)
    held = everything(*load(folder), "gpt2", CORPUS, POSITIONS)[1]
    x = held.x[held.unit == "Ġthe"].astype(np.float32)
    total, squares = x.sum(0, dtype=np.float32), np.square(x).sum(dtype=np.float32)
    naive = squares / np.float32(len(x)) - np.square(total / np.float32(len(x))).sum(dtype=np.float32)
    true = x.astype(np.float64).var(axis=0).sum()
    found = survey(folder, CORPUS, layers=[1], populations=("all",)).tokens.set_index("unit").loc["Ġthe", "v"]
    assert abs(naive - true) > 0.01 * true
    assert abs(found - true) < 0.001 * true


def test_bfloat16(small_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with states_kept(monkeypatch) as vectors:
        found = survey(small_model("llama"), CORPUS, dtype="bfloat16", batch_tokens=600)
    check(found, vectors(found), SAME_STATES)
    # bfloat16 keeps 8 bits, so states that are summed in another order are 1% apart.
    model, tokenizer = load(small_model("llama"))
    exact = everything(model, tokenizer, "llama", CORPUS, POSITIONS)
    for layer, held in exact.items():
        q = found.layers.query(f"layer == {layer} and population == 'all'")["q"].item()
        assert q == pytest.approx(np.square(held.x).sum(1).mean(), rel=0.05)


@pytest.mark.parametrize("kind", [slow("surface"), "word"])
def test_other_units(small_model: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with states_kept(monkeypatch) as vectors:
        found = survey(small_model("bert"), _WRITTEN, units=kind, batch_tokens=600)
    check(found, vectors(found), SAME_STATES)
    assert set(found.units["unit"]) == set(found.tokens["unit"])


class TestNotFinite:
    """NaN and infinite states are counted, excluded and reported."""

    @pytest.fixture
    def spoilt(self, small_model: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Path]:
        """Make every model that is loaded give states through a function of the last block's output."""

        def spoil(change: Callable[[torch.Tensor], torch.Tensor]) -> Path:
            original = text_surveys.load_model

            def load_spoilt(*args: Any, **kwargs: Any) -> Any:
                model = original(*args, **kwargs)
                blocks_of(model, "gpt2")[-1].register_forward_hook(
                    lambda module, inputs, output: (
                        (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)
                    )
                )
                return model

            monkeypatch.setattr(text_surveys, "load_model", load_spoilt)
            return small_model("gpt2")  # type: ignore[no-any-return]

        return spoil

    def test_some_positions(self, spoilt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def change(states: torch.Tensor) -> torch.Tensor:
            states = states.clone()
            states[:, 3::7, 2] = float("nan")
            states[:, 5::11] = float("inf")
            return states

        folder, listener = spoilt(change), RecordingListener()
        with states_kept(monkeypatch) as vectors:
            found = survey(folder, CORPUS, listener=listener)
        held = vectors(found)
        check(found, held, SAME_STATES)
        lost = int((~np.isfinite(held[3].x).all(axis=1)).sum())
        assert lost > 100
        assert f"layer 3 (block 3): {lost:,} NaN or infinite states were excluded" in listener.warned
        # What the norm makes of an infinite state is NaN, so the final norm loses the same ones.
        assert found.facts["counts"]["nonfinite"] == 2 * lost
        assert found.layers.query("layer < 3")["nonfinite"].sum() == 0

    def test_all_of_a_layer(self, spoilt: Any) -> None:
        folder = spoilt(lambda states: states * float("nan"))
        with pytest.raises(
            TheodoliteError, match=r"Layer 3 \(block 3\): all \d+ states of the pilot are NaN or inf"
        ):
            survey(folder, CORPUS)

    def test_all_but_the_pilots(self, small_model: Any, spoilt: Any, tmp_path: Path) -> None:
        # With another survey's pilot nothing is looked at beforehand, so the tables must notice.
        survey(small_model("gpt2"), CORPUS[:5], out=tmp_path / "whole")
        folder = spoilt(lambda states: states * float("nan"))
        with pytest.raises(TheodoliteError, match=r"Layer 3 \(block 3\) has no finite state: all [\d,]+ are NaN"):
            survey(folder, CORPUS, pilot=tmp_path / "whole")

    def test_large_but_finite_states(self, spoilt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        # Sums of squares of 1e18 overflow float32; the states themselves are fine.
        folder = spoilt(lambda states: states * 5e16)
        with states_kept(monkeypatch) as vectors:
            found = survey(folder, CORPUS, layers=[3])
        check(found, vectors(found), SAME_STATES)
        assert found.facts["counts"]["nonfinite"] == 0


def real_text() -> list[str]:
    """Return real sentences: WikiText's if available, else small talk from the catalogue."""
    wikitext = Path(__file__).parents[3] / "shared" / "data" / "wikitext2-valid.sentences.txt"
    if wikitext.is_file():
        return wikitext.read_text(encoding="utf-8").splitlines()[:50]
    from theodolite.corpora.catalogue.lookup import corpus_file
    from theodolite.corpora.options import CorpusOptions
    from theodolite.corpora.text_corpus import open_corpus

    return [text for _, text in open_corpus(corpus_file("chitchat"), CorpusOptions(limit=10)).documents()]


@pytest.mark.slow
@pytest.mark.weights
def test_real_weights_and_text(monkeypatch: pytest.MonkeyPatch) -> None:
    from theodolite.corpora.catalogue.lookup import model_folder

    text, folder = [line for line in real_text() if line.strip()], model_folder("minilm-l6")
    with states_kept(monkeypatch) as vectors:
        found = survey("minilm-l6", text, max_tokens=64)
    assert found.facts["model"]["revision"] == "0.1.0"
    assert [layer["name"] for layer in found.facts["layers"]] == [
        "embeddings",
        *(f"block {i}" for i in range(1, 7)),
    ]
    check(found, vectors(found), SAME_STATES)
    check(found, everything(*load(folder), "bert", text, 64), FORWARD)


def test_the_pilot_by_its_definition(small_model: Any) -> None:
    # The corpus is small enough for the pilot to read all of it: 8,192 characters.
    found = survey(small_model("llama"), CORPUS)
    assert found.facts["pilot"]["documents"] == len(CORPUS)
    for layer, held in everything(*load(small_model("llama")), "llama", CORPUS, POSITIONS).items():
        norms = np.linalg.norm(held.x, axis=1)
        pilot = found.pilot.layers[layer]
        if len(norms) <= 2048:
            assert pilot.median_norm == pytest.approx(np.sort(norms)[(len(norms) - 1) // 2], rel=1e-5)
            ordinary = np.sort(held.x[~held.first & (norms <= 10 * pilot.median_norm)], axis=0)
            middle = ordinary[(len(ordinary) - 1) // 2]
            assert np.abs(pilot.centre.numpy() - middle).max() <= 1e-5 * pilot.median_norm


@pytest.mark.slow
def test_model_folders_may_move(small_model: Any, tmp_path: Path) -> None:
    shutil.copytree(small_model("bert"), tmp_path / "elsewhere")
    one, other = survey(small_model("bert"), CORPUS), survey(tmp_path / "elsewhere", CORPUS)
    assert one.facts["identity"] == other.facts["identity"]
    assert one.layers.equals(other.layers)


@pytest.mark.parametrize("words", [0, 1, 5])
def test_text_that_the_tokenizer_does_not_know_is_reported(small_model: Any, words: int) -> None:
    listener = RecordingListener()
    texts = [f"{text} {'☃☃ ' * words}" for text in sentences(12, longest=6)]
    found = survey(small_model("bert"), texts, layers="1-2", listener=listener)
    tokens = found.tokens[found.tokens["population"] == "all"]
    share = tokens.loc[tokens["unit"] == "[UNK]", "n"].max() / found.state.positions if words else 0
    assert [f"{share:.0%} of the positions are [UNK]" in warning for warning in listener.warned] == (
        [True] if share > text_surveys.UNKNOWN else []
    )
    assert (share > text_surveys.UNKNOWN) == (words == 5)
