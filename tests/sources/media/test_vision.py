"""Models of pictures: states equal transformers' own, maps flat or by place, single items or batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.media_models import SIDE, VISION, Document, picture, picture_model, processor

from theodolite.batch import Batch
from theodolite.errors import InputError
from theodolite.sources.media.source import MediaSource
from theodolite.sources.media.vision import VisionFeeder

DOCUMENTS = [(0, Document("a", "cat")), (1, Document("bb", "dog")), (2, Document("ccc", "cat"))]


def taken(source: MediaSource, documents: list[tuple[int, Document]]) -> dict[int, list[Batch]]:
    kept: dict[int, list[Batch]] = {layer.index: [] for layer in source.layers}
    for prepared in source.prepare(documents):
        source.run(prepared, lambda batch: kept[batch.layer].append(batch))
    return kept


def hidden_states(model: Any, pixels: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad():
        return [
            state[0] if isinstance(state, tuple) else state
            for state in model(pixel_values=pixels, output_hidden_states=True).hidden_states
        ]


@pytest.mark.parametrize("name", VISION)
class TestEvery:
    def test_layers(self, name: str) -> None:
        kind, model = VISION[name], picture_model(name)
        source = MediaSource(model, VisionFeeder(processor(), picture))
        assert tuple(layer.name for layer in source.layers) == kind.names
        assert tuple(layer.library_index for layer in source.layers) == kind.library
        assert tuple(layer.dim for layer in source.layers) == kind.dims

    @pytest.mark.parametrize("flat", [False, True])
    def test_rows_are_those_of_transformers(self, name: str, flat: bool) -> None:
        kind, model = VISION[name], picture_model(name)
        source = MediaSource(model, VisionFeeder(processor(), picture), flat=flat)
        (prepared,) = source.prepare(DOCUMENTS)
        library = hidden_states(model, prepared.inputs["pixel_values"])
        for layer, (batch,) in taken(source, DOCUMENTS).items():
            info = source.layers[layer]
            places = 1 if flat and kind.map else kind.places[layer]
            assert len(batch.states) == len(batch.places) == len(DOCUMENTS) * places
            assert batch.states.shape[1] == info.dim
            assert len(batch.places.key.unique()) == len(batch.states)
            assert int(batch.places.first.sum()) == (len(DOCUMENTS) if kind.first else 0)
            if info.library_index is None:
                continue
            theirs = library[info.library_index]
            if theirs.dim() == 3 and not kind.map:
                expected = torch.cat(list(theirs))
            elif flat:
                expected = theirs.flatten(1)
            else:  # one vector a place, row by row of each picture
                high, wide = theirs.shape[2:]
                expected = torch.stack(
                    [theirs[i, :, y, x] for i in range(len(theirs)) for y in range(high) for x in range(wide)]
                )
            assert torch.equal(batch.states, expected), info.name
        assert prepared.positions == len(taken(source, DOCUMENTS)[0][0].states)

    def test_single_items_equal_a_batch(self, name: str) -> None:
        model = picture_model(name)
        together = taken(MediaSource(model, VisionFeeder(processor(), picture)), DOCUMENTS)
        alone = taken(MediaSource(model, VisionFeeder(processor(), picture, size=1)), DOCUMENTS)
        for layer, (batch,) in together.items():
            assert len(alone[layer]) == 3
            states, keys = (
                torch.cat([b.states for b in alone[layer]]),
                torch.cat([b.places.key for b in alone[layer]]),
            )
            assert torch.equal(keys, batch.places.key)
            apart = (states - batch.states).norm() / states.norm()
            assert apart < 1e-5  # another order of summation, over maps

    def test_half_precision(self, name: str) -> None:
        model = picture_model(name).to(torch.bfloat16)
        source = MediaSource(model, VisionFeeder(processor(), picture, dtype=torch.bfloat16))
        assert tuple(layer.name for layer in source.layers) == VISION[name].names
        assert {batch.states.dtype for (batch,) in taken(source, DOCUMENTS).values()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("none", ["all"] * 4),
        ("document", ["a", "a", "bb", "bb"]),
        ("label", ["cat", "cat", "dog", "dog"]),
        ("position", ["0", "1", "0", "1"]),
    ],
)
def test_units(kind: str, expected: list[str]) -> None:
    source = MediaSource(picture_model("ViT"), VisionFeeder(processor(), picture), kind=kind)
    (batch,) = taken(source, DOCUMENTS[:2])[0]
    at = [0, 1, 17, 18]  # two patches of each picture
    assert [source.units.known[int(code)].key for code in batch.places.unit[at]] == expected


def test_an_unknown_kind_of_units_is_rejected() -> None:
    with pytest.raises(
        InputError, match="--units 'word' is not available for images and sound; choose one of none, "
    ):
        MediaSource(picture_model("ViT"), VisionFeeder(processor(), picture), kind="word")


def test_no_layer_above_the_requested_ones_runs() -> None:
    model = picture_model("ResNet")
    source = MediaSource(model, VisionFeeder(processor(), picture), layers="0,1")
    ran: list[int] = []
    for number, stage in enumerate(model.encoder.stages, start=1):
        stage.register_forward_pre_hook(lambda module, args, number=number: ran.append(number))
    assert set(taken(source, DOCUMENTS)) == {0, 1}
    assert ran == [1]


def test_stages_of_efficientnet_end_as_configured() -> None:
    model = picture_model("EfficientNet")
    config = model.config
    repeats = [int(np.ceil(config.depth_coefficient * count)) for count in config.num_block_repeats]
    source = MediaSource(model, VisionFeeder(processor(), picture))
    ends = np.cumsum(repeats) - 1
    taps = [source.anatomy.hook_points[layer.index].module for layer in source.layers[1:]]
    assert [list(model.encoder.blocks).index(module) for module in taps] == ends.tolist()


def test_pictures_of_different_sizes_are_rejected_by_name() -> None:
    class Keeping:  # as processors do that were saved with do_resize=False
        def __call__(self, images: list[Any], return_tensors: str) -> dict[str, torch.Tensor]:
            pixels = torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255 for image in images])
            return {"pixel_values": pixels}

    def read(document: Document) -> Any:
        return picture(document).resize((SIDE, SIDE if document.name != "odd.png" else 2 * SIDE))

    source = MediaSource(picture_model("ResNet"), VisionFeeder(Keeping(), read))
    with pytest.raises(InputError, match=r"odd.png becomes \(3, 128, 64\) and a \(3, 64, 64\).* of one size"):
        source.prepare([(0, Document("a")), (1, Document("odd.png"))])


def test_modules_that_are_not_blocks_are_rejected() -> None:
    model = picture_model("ViT")
    model.config.num_hidden_layers = 99  # so that the longest list is looked for
    model.other = torch.nn.ModuleList([torch.nn.Linear(400, 400) for _ in range(2)])
    model.register_forward_pre_hook(lambda module, args: None)
    blocks = model.other

    class Outer(torch.nn.Module):
        config = model.config

        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, pixel_values: torch.Tensor, output_hidden_states: bool = False) -> Any:
            state = pixel_values.flatten(1)[:, None, :400]
            for block in blocks:
                state = block(state)
            return self.inner(pixel_values=pixel_values, output_hidden_states=output_hidden_states)

    with pytest.raises(InputError, match="block 1 is not in the hidden_states of transformers; name the modules"):
        MediaSource(Outer(), VisionFeeder(processor(), picture))
