"""Any module: the numbers of its submodules against their outputs, without padding; also wide vectors."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tests import oracles
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import theodolite
from theodolite.errors import InputError
from theodolite.statistics import fold
from theodolite.tables.shape import NARROW, TOO_WIDE

EXACT = 1e-9
"""Relative, on Q, M and V: float64 sums."""
COSINE = 1e-6
"""Absolute: x/|x| is float32."""


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 5)
        self.unused = nn.Linear(2, 2)

    def forward(self, input: Tensor, attention_mask: Tensor | None = None) -> tuple[Tensor, str]:  # noqa: A002
        return self.second(self.first(input).tanh()), "and more"


@pytest.fixture
def model() -> Small:
    torch.manual_seed(0)
    return Small()


def padded(seed: int, items: int = 3, positions: int = 9) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, positions + 1, (items,), generator=random)
    mask = (torch.arange(positions) < lengths[:, None]).long()
    return {"input": torch.randn(items, positions, 4, generator=random) + 2, "attention_mask": mask}


def row(found: theodolite.Survey, layer: int, population: str = "all") -> pd.Series:
    rows = found.layers[(found.layers["layer"] == layer) & (found.layers["population"] == population)]
    return rows.iloc[0]


def test_layers_are_the_outputs_without_padding(model: Small) -> None:
    inputs = [padded(seed) for seed in range(20)]
    found = theodolite.watch(model, inputs, ["second", "first"])
    assert [layer["name"] for layer in found.facts["layers"]] == ["first", "second"]  # as the model reaches them
    with torch.no_grad():
        kept = [state[each["attention_mask"].bool()] for each in inputs for state in [model.first(each["input"])]]
        everything = torch.cat([model.first(each["input"]).flatten(0, 1) for each in inputs])
    x = torch.cat(kept).double().numpy()
    oracle, mine = oracles.qmv(x), row(found, 0)
    assert mine["n"] == len(x)
    for name in ("q", "m", "v"):
        assert mine[name] == pytest.approx(getattr(oracle, name), rel=EXACT)
    assert mine["mean_cosine"] == pytest.approx(oracles.mean_cosine(x), abs=COSINE)
    # Counting the padding is the tempting mistake.
    assert oracles.qmv(everything.double().numpy()).q != pytest.approx(oracle.q, rel=1e-3)


def test_a_survey_of_a_module_is_saved_resumed_and_opened(model: Small, tmp_path: Path) -> None:
    inputs = [padded(seed) for seed in range(20)]
    made = theodolite.watch(model, inputs, ["first"], out=tmp_path / "s", name="mine")
    again = theodolite.watch(model, inputs, ["first"], out=tmp_path / "s", name="mine", resume=True)
    opened = theodolite.open(tmp_path / "s")
    pd.testing.assert_frame_equal(made.layers, opened.layers)
    pd.testing.assert_frame_equal(made.layers, again.layers)
    assert opened.facts["model"]["modality"] == "module"
    with pytest.raises(InputError, match="other settings"):
        theodolite.watch(model, inputs[:5], ["first"], out=tmp_path / "s", resume=True)


def test_counts_and_labels_given_by_the_user(model: Small) -> None:
    inputs = [torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(12)]
    labels = [["cat", "dog"]] * 12
    found = theodolite.watch(
        model, inputs, ["second"], counts=lambda _: (3, 5), labels=labels, units="label", populations=["all"]
    )
    assert row(found, 0)["n"] == 12 * 8
    tokens = found.tokens.set_index("unit")["n"]
    assert dict(tokens) == {"cat": 36, "dog": 60}


def test_maps_are_places_or_flat() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
    inputs = [torch.randn(2, 3, 5, 6) for _ in range(15)]
    with torch.no_grad():
        maps = torch.cat([net(each) for each in inputs])
    places = theodolite.watch(net, inputs, ["1"])
    flat = theodolite.watch(net, inputs, ["1"], maps="flat")
    by_place = maps.permute(0, 2, 3, 1).reshape(-1, 4).double().numpy()
    assert row(places, 0)["q"] == pytest.approx(oracles.qmv(by_place).q, rel=EXACT)
    assert row(places, 0)["n"] == row(places, 0, "without-first")["n"] == 30 * 30  # a corner is no first position
    assert row(flat, 0)["m"] == pytest.approx(oracles.qmv(maps.flatten(1).double().numpy()).m, rel=EXACT)
    assert (row(flat, 0)["n"], row(flat, 0)["dim"]) == (30, 120)


def test_wide_vectors_have_no_matrix_and_are_measured_on_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 200))
    inputs = [torch.randn(8, 16) for _ in range(30)]
    exact = row(theodolite.watch(net, inputs, ["0"]), 0)
    monkeypatch.setattr(fold, "MAX_MATRIX_DIM", 100)
    found = theodolite.watch(net, inputs, ["0"])
    wide = row(found, 0)
    for name in ("q", "m", "v", "mean_cosine"):
        assert wide[name] == pytest.approx(exact[name], rel=1e-12)
    assert pd.isna(wide["anisotropy_svd"])
    assert pd.isna(exact["sample_anisotropy_svd"])
    reasons = json.loads(wide["undefined"])
    assert reasons["anisotropy_svd"] == TOO_WIDE
    assert json.loads(exact["undefined"])["sample_anisotropy_svd"] == NARROW
    # All 240 vectors are in the sample, so its spectrum is that of everything.
    for name in ("anisotropy_svd", "participation_ratio", "effective_rank"):
        assert wide[f"sample_{name}"] == pytest.approx(exact[name], rel=1e-5)
    assert wide["twonn"] == pytest.approx(exact["twonn"], rel=1e-6)
    assert wide["sampled_cosine"] == pytest.approx(exact["sampled_cosine"], rel=1e-9)
    assert found.coordinates.empty


def test_modules_that_cannot_be_watched_are_reported(model: Small) -> None:
    one = [torch.randn(2, 3, 4)]
    with pytest.raises(InputError, match=r"has no submodule 'frist'.*first"):
        theodolite.watch(model, one, ["frist"])
    with pytest.raises(InputError, match="'unused' was not reached"):
        theodolite.watch(model, one, ["unused"])
    with pytest.raises(InputError, match="modules requires at least one name"):
        theodolite.watch(model, one, [])
    with pytest.raises(InputError, match="inputs: expected at least one"):
        theodolite.watch(model, [], ["first"])
    with pytest.raises(InputError, match="maps 'tall' is not one of"):
        theodolite.watch(model, one, ["first"], maps="tall")
    left = {"input": torch.randn(1, 3, 4), "attention_mask": torch.tensor([[0, 1, 1]])}
    with pytest.raises(InputError, match="not padded on the right"):
        theodolite.watch(model, [left], ["first"])
    with pytest.raises(InputError, match=r"labels has 2 lists for 1 input\."):
        theodolite.watch(model, one, ["first"], labels=[["a"], ["b"]], units="label")


def test_the_model_is_unchanged(model: Small) -> None:
    model.train()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    theodolite.watch(model, [torch.randn(4, 5, 4)], ["first"])
    assert model.training
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_half_precision_is_measured(model: Small) -> None:
    found = theodolite.watch(model.bfloat16(), [torch.randn(4, 5, 4).bfloat16() for _ in range(4)], ["first"])
    assert np.isfinite(row(found, 0)["q"])


@pytest.mark.parametrize(
    ("inputs", "counts", "rows"),
    [
        ([torch.randn(8, 10, 4)], None, 80),
        ([torch.randn(8, 10, 4), torch.randn(3, 7, 4)], None, 101),
        ([torch.randn(8, 10, 4)], [5] * 8, 40),
        ([torch.randn(8, 4)], None, 8),
    ],
)
def test_positions_are_those_of_the_rows(inputs: list[torch.Tensor], counts: list[int] | None, rows: int) -> None:
    chosen = None if counts is None else lambda given: counts
    survey = theodolite.watch(nn.Sequential(nn.Linear(4, 3)), inputs, ["0"], counts=chosen)
    assert survey.facts["counts"]["positions"] == int(survey.layers["n"].iloc[0]) == rows


class Scaled(nn.Module):
    """Takes a number and a flag beside its tensor, and has no parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.bend = nn.ReLU()

    def forward(self, x: torch.Tensor, scale: torch.Tensor, negative: bool = False) -> torch.Tensor:
        return self.bend(-x if negative else x) * scale


def test_inputs_without_rows_and_a_model_without_parameters() -> None:
    given = {"x": torch.randn(6, 4), "scale": torch.tensor(2.0), "negative": True}
    survey = theodolite.watch(Scaled(), [given], ["bend"])
    q = float(torch.relu(-given["x"]).double().square().sum(dim=1).mean())
    assert survey.layers["q"].iloc[0] == pytest.approx(q, rel=1e-6)
    assert survey.facts["model"]["dtype"] is None


class Read(nn.Module):
    """Its argument is not named `input`."""

    def __init__(self) -> None:
        super().__init__()
        self.emb, self.out = nn.Embedding(10, 4), nn.Linear(4, 3)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        kept = self.emb(ids)
        return self.out(kept if mask is None else kept * mask[..., None])


class Rows(Dataset[Tensor]):
    """A dataset that can be indexed and not iterated over."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> Tensor:
        return IDS[2 * number : 2 * number + 2]


IDS = torch.randint(0, 10, (6, 5), generator=torch.Generator().manual_seed(0))
PAIRS = [IDS[:2], IDS[2:4], IDS[4:]]


@pytest.fixture
def reader() -> Read:
    torch.manual_seed(0)
    return Read()


@pytest.mark.parametrize(
    "inputs",
    [
        PAIRS,
        tuple(PAIRS),
        iter(PAIRS),
        [{"ids": pair} for pair in PAIRS],
        [(pair,) for pair in PAIRS],
        [[pair] for pair in PAIRS],
        DataLoader(TensorDataset(IDS), batch_size=2),
        Rows(),
    ],
    ids=["list", "tuple", "generator", "dicts", "tuples", "lists", "loader", "dataset"],
)
def test_every_form_of_input_gives_the_same_survey(reader: Read, inputs: object) -> None:
    found = theodolite.watch(reader, inputs, ["emb"])  # type: ignore[arg-type]
    plain = theodolite.watch(reader, [{"ids": pair} for pair in PAIRS], ["emb"])
    pd.testing.assert_frame_equal(found.layers, plain.layers)
    assert found.facts["corpus"] == plain.facts["corpus"]
    assert found.name == "Read on 3 inputs"


@pytest.mark.parametrize("one", [IDS, {"ids": IDS}], ids=["tensor", "dict"])
def test_a_lone_tensor_or_dict_is_one_input_and_a_lone_string_one_module(reader: Read, one: object) -> None:
    found = theodolite.watch(reader, one, "emb")  # type: ignore[arg-type]
    assert [layer["name"] for layer in found.facts["layers"]] == ["emb"]
    assert row(found, 0)["n"] == IDS.numel()
    assert found.facts["corpus"]["documents"] == len(IDS)
    assert found.name == "Read on 1 input"


def test_positional_arguments_are_passed_in_order(reader: Read) -> None:
    mask = torch.zeros(6, 5)
    found = theodolite.watch(reader, [(IDS, mask)], "out")
    assert row(found, 0)["q"] == pytest.approx(float(reader.out.bias.detach().double().square().sum()), rel=1e-6)
    named = theodolite.watch(reader, [{"ids": IDS, "mask": mask}], "out")
    assert named.facts["corpus"]["sha256"] == found.facts["corpus"]["sha256"]


def test_argument_names_where_a_tensor_goes(model: Small) -> None:
    x = torch.randn(2, 3, 4)
    found = theodolite.watch(Scaled(), [{"x": x, "scale": torch.tensor(1.0)}], "bend")
    with pytest.raises(InputError, match=r"called with x; it takes x, scale, negative.*`argument`"):
        theodolite.watch(Scaled(), [x], "bend")
    with pytest.raises(InputError, match=r"called with inputs; it takes input, attention_mask"):
        theodolite.watch(model, [x], "first", argument="inputs")
    assert row(found, 0)["n"] == 6
    corpus = theodolite.watch(model, [x], "first", argument="input").facts["corpus"]
    assert corpus == theodolite.watch(model, [x], "first").facts["corpus"]


def test_a_wrapper_that_passes_its_arguments_on_is_unwrapped(reader: Read) -> None:
    assert row(theodolite.watch(nn.DataParallel(reader), IDS, "module.emb"), 0)["n"] == IDS.numel()


def test_the_digest_of_an_input_named_input_is_unchanged(model: Small) -> None:
    x = torch.arange(8, dtype=torch.float32).reshape(1, 2, 4)
    plain = b"input (1, 2, 4) torch.float32 " + x.numpy().tobytes()
    found = theodolite.watch(model, [x], ["first"])
    assert found.facts["corpus"]["sha256"] == sha256(plain).hexdigest()


@pytest.mark.parametrize(
    ("inputs", "modules", "words"),
    [
        (5, "emb", "inputs requires a tensor, a dict, or several of these .got int"),
        ("some text", "emb", "inputs: number 0 is a str; expected a tensor, a dict of keyword arguments"),
        ([IDS.numpy()], "emb", "inputs: number 0 is a ndarray"),
        (iter([]), "emb", "inputs: expected at least one"),
        ([(IDS, IDS, IDS)], "emb", "number 0 has 3 arguments, but Read is called with ids, mask; remove"),
        ([{"text": IDS}], "emb", "Read was called with text; it takes ids, mask"),
        (IDS, [nn.Linear(1, 1)], "modules requires names, .*got Linear"),
        (IDS, 3, "modules requires names, .*got int"),
        (IDS, "embb", "no submodule 'embb'. Did you mean 'emb'"),
    ],
)
def test_invalid_inputs_are_reported(reader: Read, inputs: object, modules: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        theodolite.watch(reader, inputs, modules)  # type: ignore[arg-type]


def test_an_error_raised_by_the_model_is_not_changed(reader: Read) -> None:
    with pytest.raises(TypeError, match="not subscriptable"):
        theodolite.watch(reader, [{"ids": IDS, "mask": 2}], "out")


def test_a_loaded_model_is_not_a_name(reader: Read) -> None:
    with pytest.raises(InputError, match=r"MODEL: expected a name or a folder, .*got Read\. .*watch"):
        theodolite.survey(reader, ["A text."])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"model: expected a torch\.nn\.Module, got str"):
        theodolite.watch("bert", [IDS], "emb")  # type: ignore[arg-type]


def test_streams_of_a_model_of_transformers() -> None:
    """Against plain hooks on the modules that compute them; padding does not count."""
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForMaskedLM(BertConfig(**shape, vocab_size=50)).eval()
    mask = (torch.arange(7) < torch.tensor([[7], [4], [5]])).long()
    inputs = {"input_ids": torch.randint(50, (3, 7)), "attention_mask": mask}
    kept: dict[str, Tensor] = {}
    block = model.bert.encoder.layer[1]
    for name, module in {"block 2": block, "block 2/k": block.attention.self.key}.items():
        module.register_forward_hook(lambda m, a, out, name=name: kept.update({name: out}))
    found = theodolite.watch(model, inputs, streams="residual,k")
    rows = found.layers[found.layers["population"] == "all"].set_index("layer_name")
    assert list(rows.index) == ["embeddings", "block 1", "block 2", "block 1/k", "block 2/k"]
    with torch.no_grad():
        model(**inputs)
    for name, states in kept.items():
        x = (states[0] if isinstance(states, tuple) else states)[mask == 1].double().numpy()
        assert rows.loc[name, "n"] == len(x)
        assert rows.loc[name, "q"] == pytest.approx(np.square(x).sum(axis=1).mean(), rel=1e-6)


def test_streams_of_half_of_an_encoder_decoder() -> None:
    """The encoder by itself has the configuration of the whole model."""
    from transformers import BartConfig, BartModel

    torch.manual_seed(0)
    shape = {f"{half}_{name}": 2 for half in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    model = BartModel(
        BartConfig(vocab_size=50, d_model=16, encoder_ffn_dim=32, decoder_ffn_dim=32, **shape)
    ).eval()
    found = theodolite.watch(model.encoder, {"input_ids": torch.randint(50, (3, 7))}, streams="q,attn")
    assert found.layers["layer_name"].unique().tolist() == [
        f"block {number}/{stream}" for stream in ("q", "attn") for number in (1, 2)
    ]
    chosen = theodolite.watch(model.encoder, {"input_ids": torch.randint(50, (3, 7))}, layers="1,block 2/k/head 1")
    assert chosen.layers["layer_name"].unique().tolist() == ["block 1", "block 2/k/head 1"]
    with pytest.raises(InputError, match="modules and layers: give one of them"):
        theodolite.watch(model.encoder, {"input_ids": torch.randint(50, (3, 7))}, "layers.0", layers=[1])


def test_streams_are_not_mixed_with_modules(model: Small) -> None:
    with pytest.raises(InputError, match="modules and streams: give one of them"):
        theodolite.watch(model, padded(1), ["first"], streams="k")
    with pytest.raises(InputError, match="streams: Small is not a model of transformers"):
        theodolite.watch(model, padded(1), streams="k")
