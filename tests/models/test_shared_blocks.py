"""ALBERT: a block that layers share is a layer for every time that it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.small_models import TOKENIZERS, save, sentences

from theodolite import survey
from theodolite.models.norm_placement import find_placement
from theodolite.models.text_anatomy import Anatomy, make_probe
from theodolite.studies.series.attention import SHARED, measure_attention


def albert(vocabulary: int = 120, *, layers: int = 12, groups: int = 1, inner: int = 1) -> Any:
    from transformers import AlbertConfig, AlbertModel

    torch.manual_seed(0)
    config = AlbertConfig(
        vocab_size=vocabulary,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=layers,
        num_hidden_groups=groups,
        inner_group_num=inner,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    return AlbertModel(config).eval()


@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (3, 1), (2, 2)])
def test_every_layer_has_the_state_of_its_own_call(groups: int, inner: int) -> None:
    model = albert(groups=groups, inner=inner)
    anatomy = Anatomy.of(model)
    layers = 12 * inner + 1
    assert len(set(anatomy.blocks)) == groups * inner
    assert [layer.library_index for layer in anatomy.layers] == list(range(layers))
    inputs = make_probe(model)
    with torch.no_grad():
        expected = model(**inputs, output_hidden_states=True).hidden_states
    assert len(expected) == layers
    for chosen in (range(layers), [5], [0, 11]):  # a forward pass ends after the last layer that is needed
        seen: dict[int, torch.Tensor] = {}
        with anatomy.hook_layers(lambda index, state, seen=seen: seen.update({index: state}), chosen) as forward:
            forward(**inputs)
        assert sorted(seen) == list(chosen)
        assert all(torch.equal(state, expected[index]) for index, state in seen.items())
    # The states differ: one block read once would pass for all of them otherwise.
    assert all((expected[k] - expected[k + 1]).norm() > 1e-3 for k in range(layers - 1))


def test_a_survey_has_the_numbers_of_twelve_layers(tmp_path: Any) -> None:
    tokenizer = TOKENIZERS["bert"]()
    model = albert(len(tokenizer))
    save(model, tokenizer, tmp_path / "albert")
    texts = sentences(12, longest=10)
    found = survey(tmp_path / "albert", texts, populations=["all"])
    states: list[list[torch.Tensor]] = [[] for _ in range(13)]
    for text in texts:
        with torch.no_grad():
            output = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        for kept, state in zip(states, output.hidden_states, strict=True):
            kept.append(state[0])
    rows = found.layers.set_index("layer")
    assert list(rows.index) == list(range(13))
    assert list(rows["layer_name"])[::6] == ["embeddings", "block 6", "block 12"]
    for layer, parts in enumerate(states):
        x = torch.cat(parts).double().numpy()
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        n = len(x)
        assert rows["n"][layer] == n
        assert rows["q"][layer] == pytest.approx(np.square(x).sum(1).mean(), rel=1e-5)
        assert rows["m"][layer] == pytest.approx(np.square(x.mean(0)).sum(), rel=1e-5)
        mean_cosine = (np.square(unit.sum(0)).sum() - n) / (n * (n - 1))
        assert rows["mean_cosine"][layer] == pytest.approx(mean_cosine, abs=1e-5)


def test_the_norm_placement_is_that_of_bert() -> None:
    anatomy = Anatomy.of(albert())
    found = find_placement(anatomy)
    assert found.word == "post"
    assert set(found.output_norms) >= set(range(1, 13))


def test_attention_is_that_of_each_layer() -> None:
    tokenizer = TOKENIZERS["bert"]()
    model = albert(len(tokenizer), layers=3)
    blocks, _ = measure_attention(model, tokenizer, list(enumerate(sentences(4))))
    every = blocks[blocks["population"] == blocks["population"].iloc[0]]
    assert len(every) == 3
    assert all(SHARED in reasons for reasons in every["undefined"])
    numbers = every.filter(like="state_").select_dtypes("number").dropna(axis=1)
    assert numbers.shape[1] > 0
    assert (numbers.nunique() == 3).any()  # the states of three calls, not three times the first
