"""The probe of a training loop reads streams that `layers` names."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.small_models import load, make, sentences

from theodolite.errors import InputError
from theodolite.integrations.probe import GeometryProbe
from theodolite.models.text_anatomy import Anatomy


def test_layers_of_other_streams_are_measured(tmp_path: Path) -> None:
    network, tokenizer = load(make("llama", tmp_path / "llama"))
    probe = GeometryProbe(sentences(12), tokenizer, every=1, layers="2,block 1/k,block 1/v/head 0", share=None)
    numbers = probe(network, 0)
    assert numbers is not None
    assert {name.removeprefix("geometry/").rpartition("/")[0] for name in numbers} >= {
        "block_2",
        "block_1/k",
        "block_1/v/head_00",
    }
    assert probe.layers is not None
    widths = {layer.name: layer.dim for layer in Anatomy.of(network).find_streams().layers}
    rows = probe.layers.set_index("layer_name")
    assert rows.loc["block 1/k", "n"].iloc[0] > 0
    assert widths["block 1/k"] == 2 * widths["block 1/v/head 0"]
    q = rows[rows["population"] == "all"]["q"]
    assert q["block 1/v/head 0"] != pytest.approx(q["block 1/k"])


def test_streams_of_the_default_layers_are_measured(tmp_path: Path) -> None:
    network, tokenizer = load(make("llama", tmp_path / "llama"))
    probe = GeometryProbe(sentences(6), tokenizer, streams="residual,k/heads", share=None)
    probe.measure(network, 0)
    assert probe.layers is not None
    names = list(dict.fromkeys(probe.layers["layer_name"]))
    blocks = [name for name in names if "/" not in name and name.startswith("block")]
    assert {name.split("/")[0] for name in names if "/k/head " in name} == set(blocks)
    with pytest.raises(InputError, match="--streams 'keys' is not one of"):
        GeometryProbe(sentences(6), tokenizer, streams=["keys"])
