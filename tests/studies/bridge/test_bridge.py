"""The tables of a bridge against all vectors in memory, and the errors of bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.measures.laboratories.test_bridge import hsic_by_kernels
from tests.small_models import load, make, save, sentences

import theodolite
from theodolite.errors import InputError, MemoryLimitError, TheodoliteError
from theodolite.storage.files import read_tensors
from theodolite.studies.bridge.bridge import bridge
from theodolite.studies.bridge.positions import PositionReader, cut_pieces
from theodolite.studies.bridge.spaces import Space, SpaceSample
from theodolite.studies.laboratory import Findings, open_laboratory
from theodolite.studies.text_model import TextModel, load_text_model

pytestmark = pytest.mark.filterwarnings(r"ignore:R\^2, neighbours and recall come from")
TEXTS = sentences(96, seed=7)
ROUNDING = 1e-5
"""The oracle reads all texts in other batches: float32 rounding of the states."""


@pytest.fixture(scope="module")
def across(small_model: Callable[[str], Path]) -> Findings:
    return bridge(small_model("bert"), small_model("gpt2"), corpus=TEXTS, neighbours=5)


def all_states(folder: Path, layer: int) -> tuple[torch.Tensor, np.ndarray]:
    """Return the words of all texts at a layer, and which of them are held out."""
    reader = PositionReader(TextModel(*load(folder), {}), match="word", layers=[layer], max_tokens=64)
    states, held = [], []
    for pieces in cut_pieces(enumerate(TEXTS)):
        found = reader.read(pieces)
        states.append(found.states[layer])
        held.append(np.array([piece.held for piece in pieces])[found.keys // 2**32])
    return torch.cat(states).double(), np.concatenate(held)


def test_cka_and_maps_equal_those_of_all_vectors(across: Findings, small_model: Callable[[str], Path]) -> None:
    assert across.facts["settings"]["match"] == "word"
    assert "by their characters" in across.facts["matched"]
    row = across.tables["maps"].iloc[1]
    x, held = all_states(small_model("bert"), row["layer_a"])
    y, _ = all_states(small_model("gpt2"), row["layer_b"])
    assert len(x) == len(y) == across.facts["positions"]["matched"] > 1000
    cka = across.tables["cka"].set_index(["layer_a", "layer_b"]).loc[(row["layer_a"], row["layer_b"])]
    expected = hsic_by_kernels(x, y) / (hsic_by_kernels(x, x) * hsic_by_kernels(y, y)) ** 0.5
    assert cka["n"] == len(x)
    assert cka["cka"] == pytest.approx(expected, rel=ROUNDING)
    design = np.column_stack([x, np.ones(len(x))])
    # The states of BERT lie in a hyperplane: with rcond=None the rounding across it would be fitted too.
    solution = np.linalg.lstsq(design[~held], y[~held].numpy(), rcond=1e-5)[0]
    truth = y[held].numpy()
    error = ((truth - design[held] @ solution) ** 2).sum() / ((truth - truth.mean(0)) ** 2).sum()
    assert row["linear_r2"] == pytest.approx(1 - error, abs=ROUNDING)
    assert (row["n_fitted"], row["n_held_out"]) == ((~held).sum(), held.sum())


def test_a_model_and_its_copy_are_equal(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    saved = tmp_path / "map.safetensors"
    found = bridge(small_model("bert"), small_model("bert"), corpus=TEXTS, save_map=saved)
    assert found.facts["settings"]["match"] == "token"
    same = found.tables["cka"].query("layer_a == layer_b")
    assert same["cka"].tolist() == pytest.approx([1] * 4, abs=1e-9)
    maps = found.tables["maps"]
    for name in ("linear_r2", "procrustes_r2", "procrustes_scale", "mutual_knn", "recall_linear", "recall_none"):
        assert maps[name].tolist() == pytest.approx([1] * 4, abs=1e-3), name
    assert maps["churn"].max() == pytest.approx(0)
    tensors, metadata = read_tensors(saved)
    assert metadata["use"] == "y = (x - mean_a) @ map + mean_b"
    x, _ = all_states(small_model("bert"), 3)
    mapped = (x.float() - tensors["mean_a"]) @ tensors["map"] + tensors["mean_b"]
    torch.testing.assert_close(mapped, x.float(), rtol=1e-3, atol=1e-3)


def test_a_rotated_model_is_found_by_its_map(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    """The coordinates of the second model are permuted: no neighbour changes, and a rotation restores them."""
    model, tokenizer = load(small_model("gpt2"))
    order = torch.randperm(model.wte.weight.shape[1], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.wte.weight.copy_(model.wte.weight[:, order])
        model.wpe.weight.copy_(model.wpe.weight[:, order])
    save(model, tokenizer, tmp_path / "rotated")
    found = bridge(small_model("gpt2"), tmp_path / "rotated", corpus=TEXTS, layers="0")
    row = found.tables["maps"].iloc[0]
    assert found.tables["cka"]["cka"].iloc[0] == pytest.approx(1, abs=1e-6)
    assert row["procrustes_r2"] == pytest.approx(1, abs=1e-6)
    assert row["recall_procrustes"] > 0.99
    assert row["mutual_knn"] > 0.99
    assert row["recall_none"] < 0.3  # the dimensions are equal, and the vectors are not comparable


def test_documents_are_matched_if_asked(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    saved = tmp_path / "map.safetensors"
    models = small_model("bert"), small_model("gpt2")
    found = bridge(*models, corpus=TEXTS, match="document", layers="-1", neighbours=3, save_map=saved)
    row = found.tables["maps"].iloc[0]
    assert row["n_fitted"] + row["n_held_out"] == len(TEXTS) == found.facts["positions"]["matched"]
    assert row["n_held_out"] == found.facts["corpus"]["held_out"]
    assert row["map_reason"] is None
    assert json.loads(read_tensors(saved)[1]["measured"])["recall_linear"] == pytest.approx(row["recall_linear"])


def test_another_seed_shares_little(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    make("bert", tmp_path / "other", seed=1)
    found = bridge(small_model("bert"), tmp_path / "other", corpus=TEXTS, layers="-1")
    assert found.tables["cka"]["cka"].iloc[0] < 0.5
    assert found.tables["maps"]["churn"].iloc[0] > 0.1


def test_one_model_has_a_symmetric_table_and_consecutive_maps(small_model: Callable[[str], Path]) -> None:
    found = theodolite.bridge(small_model("bert"), corpus=TEXTS)
    wide = found.tables["cka"].pivot(index="layer_a", columns="layer_b", values="cka").to_numpy()
    np.testing.assert_array_equal(wide, wide.T)
    np.testing.assert_allclose(np.diag(wide), 1, atol=1e-12)
    assert found.tables["maps"][["layer_a", "layer_b"]].to_numpy().tolist() == [[0, 1], [1, 2], [2, 3]]


def test_the_sample_does_not_depend_on_the_order() -> None:
    space = Space(0, 0)
    keys = torch.from_numpy(np.random.default_rng(0).permutation(100))
    rows = keys[:, None].float()
    whole, parts = SpaceSample(10, [space]), SpaceSample(10, [space])
    whole.update(keys, {space: rows})
    for part in torch.arange(100).flip(0).split(7):
        parts.update(keys[part], {space: rows[part]})
    assert whole.rows[space].flatten().tolist() == parts.rows[space].flatten().tolist() == list(range(10))


def test_little_memory_leaves_pairs_of_equal_depth(small_model: Callable[[str], Path]) -> None:
    model = small_model("bert")
    dim = load(model)[0].config.hidden_size
    with pytest.warns(UserWarning, match="CKA is computed for 4 of them"):
        found = bridge(model, model, corpus=TEXTS[:20], memory=8 * dim**2 * 20)
    assert found.tables["cka"][["layer_a", "layer_b"]].to_numpy().tolist() == [[i, i] for i in range(4)]
    with pytest.raises(MemoryLimitError, match="select fewer --layers"):
        bridge(model, model, corpus=TEXTS[:20], memory=1000)


def test_few_documents_give_null_with_a_reason(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    model = small_model("bert")
    with pytest.warns(UserWarning, match="come from 0 documents of 1, since one in 5"):
        found = bridge(model, model, corpus=["one text"], layers="0,-1")
    row = found.tables["maps"].iloc[-1]
    assert np.isnan(row["linear_r2"])
    assert row["map_reason"] == "too few documents to hold some out"
    assert "too few for 10 neighbours" in row["neighbour_reason"]
    with pytest.raises(TheodoliteError, match="no map to save, because too few documents"):
        bridge(model, model, corpus=["one text"], save_map=tmp_path / "map.safetensors")
    few = bridge(model, model, corpus=TEXTS[:3], layers="-1", limit=3).tables["maps"].iloc[0]
    assert few["map_reason"] is not None


def test_results_are_saved_and_read(small_model: Callable[[str], Path], tmp_path: Path) -> None:
    model = small_model("bert")
    bridge(model, corpus=TEXTS[:30], out=tmp_path / "out", layers="0,-1")
    read = open_laboratory(tmp_path / "out")
    assert set(read.tables) == {"cka", "maps"}
    assert read.facts["corpus"]["documents"] == 30
    with pytest.raises(InputError, match="--overwrite"):
        bridge(model, corpus=TEXTS[:30], out=tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "0"}, "select at least two"),
        ({"layers_b": "0"}, "--layers-b requires a second model"),
        ({"save_map": "map.safetensors"}, "--save-map requires a second model"),
        ({"population": "without-first"}, "is not one of without-sinks, all"),
        ({"neighbours": 0}, "--neighbours must be at least 1"),
        ({"sample_size": 5}, "--sample-size must be at least 12"),
        ({"corpus": [" ", ""]}, "contains no text"),
        ({"corpus": ["\u200b"]}, "no position that can be matched"),
        ({"field": "body"}, "--field 'body' has no effect"),
        ({"layers": "9"}, "names layer 9, which does not exist"),
    ],
)
def test_bad_input(options: dict[str, object], message: str, small_model: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match=message):
        bridge(small_model("bert"), **{"corpus": TEXTS[:5], **options})  # type: ignore[arg-type]


def test_a_map_is_a_safetensors_file(small_model: Callable[[str], Path]) -> None:
    with pytest.raises(InputError, match=r"must end in \.safetensors"):
        bridge(small_model("bert"), small_model("bert"), corpus=TEXTS[:5], save_map="map.npy")


@pytest.mark.weights
def test_minilm_in_half_precision_is_nearly_itself() -> None:
    found = bridge("minilm-l6", "minilm-l6", corpus=TEXTS[:40], layers="3,-1", dtype="float32", dtype_b="bfloat16")
    same = found.tables["cka"].query("layer_a == layer_b")["cka"]
    assert same.min() > 0.999
    assert same.max() < 1


@pytest.mark.slow
@pytest.mark.weights
def test_minilm_fine_tuned_departs_most_in_its_last_layer(tmp_path: Path) -> None:
    """Weights in half precision are the same model; a few steps of training change the last layers most."""
    loaded = load_text_model("minilm-l6")
    network, tokenizer = loaded.network, loaded.tokenizer
    rounded = {name: weight.half().float() for name, weight in network.state_dict().items()}
    original = {name: weight.clone() for name, weight in network.state_dict().items()}
    network.load_state_dict(rounded)
    save(network, tokenizer, tmp_path / "rounded")
    network.load_state_dict(original)
    optimizer = torch.optim.SGD(network.requires_grad_(True).parameters(), lr=0.05)
    for step in range(6):  # two views of a text by dropout should be nearer than two texts
        given = tokenizer(TEXTS[16 * step : 16 * step + 16], return_tensors="pt", padding=True)
        first, second = (network.train()(**given).last_hidden_state.mean(1) for _ in range(2))
        logits = torch.nn.functional.normalize(first, dim=1) @ torch.nn.functional.normalize(second, dim=1).T
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(20 * logits, torch.arange(16)).backward()
        optimizer.step()
    save(network.eval(), tokenizer, tmp_path / "tuned")

    def compare(name: str) -> list[float]:
        found = bridge("minilm-l6", tmp_path / name, corpus=TEXTS[:40], layers="0,3,-1")
        return found.tables["cka"].query("layer_a == layer_b")["cka"].tolist()

    assert min(compare("rounded")) > 0.99999
    tuned = compare("tuned")
    assert tuned[0] > tuned[1] > tuned[2]
    assert tuned[2] < 0.999
