"""Speech and vision end to end: a folder of files, a model's folder, and the resulting survey."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from tests import oracles
from transformers import (
    ConvNextImageProcessorPil,
    ResNetConfig,
    ResNetModel,
    ViTConfig,
    ViTImageProcessorPil,
    ViTModel,
    Wav2Vec2Config,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2Model,
)

import theodolite
from theodolite.engines.progress import Listener
from theodolite.errors import InputError, TheodoliteError

EXACT = 1e-5
"""Relative: a forward pass is not the same to the bit in batches of another size."""
RATE = 16_000


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("vit")
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=32,
        patch_size=8,
    )
    ViTModel(config).save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("resnet")
    ResNetModel(ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])).save_pretrained(folder)
    ConvNextImageProcessorPil(size={"shortest_edge": 32}, crop_pct=1.0).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def wav2vec2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("wav2vec2")
    config = Wav2Vec2Config(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        conv_dim=(8,) * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    Wav2Vec2Model(config).save_pretrained(folder)
    Wav2Vec2FeatureExtractor().save_pretrained(folder)
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    random = np.random.default_rng(0)
    for label in ("cats", "dogs"):
        (folder / label).mkdir(parents=True)
        for number in range(4):
            pixels = random.integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    return folder


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    folder = tmp_path / "sound"
    folder.mkdir()
    random = np.random.default_rng(0)
    for number, seconds in enumerate((0.4, 1.3, 0.9)):
        sound(folder / f"{number}.wav", 0.2 * random.standard_normal(int(seconds * RATE)))
    return folder


def sound(path: Path, values: np.ndarray, rate: int = RATE) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(values, -1, 1) * 32767).astype("<i2").tobytes())


def row(found: theodolite.Survey, layer: int, population: str = "all") -> pd.Series:
    rows = found.layers[(found.layers["layer"] == layer) & (found.layers["population"] == population)]
    return rows.iloc[0]


def test_patches_of_pictures_by_label(vit: Path, pictures: Path, tmp_path: Path) -> None:
    found = theodolite.survey(vit, pictures, units="label", out=tmp_path / "out")
    model = ViTModel.from_pretrained(vit).eval()
    processor = ViTImageProcessorPil.from_pretrained(vit)
    images = [Image.open(path).convert("RGB") for path in sorted(pictures.rglob("*.png"))]
    with torch.no_grad():
        hidden = model(**processor(images, return_tensors="pt"), output_hidden_states=True).hidden_states
    for layer in (0, 2):
        x = hidden[layer].flatten(0, 1).double().numpy()
        assert row(found, layer)["n"] == len(x) == 8 * 17
        assert row(found, layer)["q"] == pytest.approx(oracles.qmv(x).q, rel=EXACT)
        labels = np.repeat([0] * 4 + [1] * 4, 17)
        assert row(found, layer)["v_within"] == pytest.approx(oracles.decomposition(x, labels).v_within, rel=EXACT)
    assert row(found, 1, "without-first")["n"] == 8 * 16  # the class token is the first position
    assert set(found.tokens["unit"]) == {"cats", "dogs"}
    assert found.facts["model"]["modality"] == "vision"
    opened = theodolite.open(tmp_path / "out")
    pd.testing.assert_frame_equal(opened.tokens, found.tokens)


def test_without_units_what_needs_them_is_null_with_a_reason(vit: Path, pictures: Path) -> None:
    found = theodolite.survey(vit, pictures)
    assert pd.isna(row(found, 1)["v_within"])
    assert "belong to no units" in json.loads(row(found, 1)["undefined"])["v_within"]
    assert len(found.tokens) == 0


@pytest.mark.parametrize(("units", "count"), [("position", 17), ("document", 8)])
def test_other_units(vit: Path, pictures: Path, units: str, count: int, tmp_path: Path) -> None:
    found = theodolite.survey(vit, pictures, units=units, layers="1", out=tmp_path / "out")
    assert row(found, 1)["types"] == count
    assert len(theodolite.open(tmp_path / "out").units) == count


def test_maps_are_flat_as_in_the_paper_by_default(resnet: Path, pictures: Path) -> None:
    flat, places = theodolite.survey(resnet, pictures), theodolite.survey(resnet, pictures, maps="places")
    assert [row(flat, layer)["n"] for layer in range(3)] == [8, 8, 8]
    assert row(places, 1)["n"] == 8 * row(flat, 1)["dim"] / row(places, 1)["dim"]
    assert flat.facts["model"]["modality"] == "convolution"
    assert list(flat.layers["layer_name"].unique()) == ["embeddings", "stage 1", "stage 2"]


def test_frames_of_speech_equal_those_of_single_clips(wav2vec2: Path, recordings: Path) -> None:
    found = theodolite.survey(wav2vec2, recordings)
    model, extractor = Wav2Vec2Model.from_pretrained(wav2vec2).eval(), Wav2Vec2FeatureExtractor()
    states = []
    for path in sorted(recordings.glob("*.wav")):
        with wave.open(str(path)) as file:
            values = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        with torch.no_grad():
            heard = model(**extractor(values, sampling_rate=RATE, return_tensors="pt"), output_hidden_states=True)
        states.append(heard.hidden_states[1][0])
    x = torch.cat(states).double().numpy()
    assert row(found, 1)["n"] == len(x)
    assert row(found, 1)["v"] == pytest.approx(oracles.qmv(x).v, rel=1e-4)  # samples pass through 16 bits


def test_long_recordings_are_cut_and_resumed(wav2vec2: Path, recordings: Path, tmp_path: Path) -> None:
    whole = theodolite.survey(wav2vec2, recordings, max_seconds=0.5, out=tmp_path / "out")
    again = theodolite.survey(wav2vec2, recordings, max_seconds=0.5, out=tmp_path / "out", resume=True)
    pd.testing.assert_frame_equal(whole.layers, again.layers)
    assert row(whole, 1)["n"] - row(whole, 1, "without-first")["n"] == 1 + 3 + 2  # a first frame for each clip


def test_bad_files_are_named_or_skipped_and_counted(vit: Path, pictures: Path) -> None:
    (pictures / "cats" / "broken.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"cats/broken.png.*--skip-bad"):
        theodolite.survey(vit, pictures)
    messages: list[str] = []

    class Listening(Listener):
        def warn(self, text: str) -> None:
            messages.append(text)

    found = theodolite.survey(vit, pictures, skip_bad=True, listener=Listening())
    assert found.facts["corpus"]["documents"] == 8
    assert found.facts["corpus"]["skipped"][0][0] == "cats/broken.png"
    assert "1 files cannot be used" in messages[0]


@pytest.mark.parametrize(
    ("values", "rate", "words"),
    [
        (np.zeros(RATE), RATE, "is silent"),
        (np.ones(100) * np.arange(100) / 100, RATE, "too short"),
        (np.random.default_rng(0).standard_normal(50), 100, "samples per second"),
    ],
)
def test_unusable_audio_is_rejected(
    wav2vec2: Path, recordings: Path, values: np.ndarray, rate: int, words: str
) -> None:
    sound(recordings / "bad.wav", values, rate)
    with pytest.raises(InputError, match=f"bad.wav.*{words}"):
        theodolite.survey(wav2vec2, recordings)


def test_another_rate_is_resampled(wav2vec2: Path, recordings: Path) -> None:
    low = 0.2 * np.sin(np.arange(8_000) * 0.3)
    sound(recordings / "low.wav", low, 8_000)
    assert theodolite.survey(wav2vec2, recordings).facts["corpus"]["sorts"] == {"16000 Hz": 3, "8000 Hz": 1}


def test_text_options_are_rejected(vit: Path, pictures: Path) -> None:
    for options, flag in [({"wrap": True}, "--wrap"), ({"max_tokens": 8}, "--max-tokens"), ({"min_words": 3}, "")]:
        with pytest.raises(InputError, match=f"{flag}.* applies to text only"):
            theodolite.survey(vit, pictures, **options)
    with pytest.raises(InputError, match="--units 'word'"):
        theodolite.survey(vit, pictures, units="word")
    with pytest.raises(InputError, match="--max-seconds applies to speech only"):
        theodolite.survey(vit, pictures, max_seconds=5.0)
    with pytest.raises(InputError, match="--field applies to text only"):
        theodolite.survey(vit, pictures, field="body")
    with pytest.raises(InputError, match="--maps 'high' is not one of"):
        theodolite.survey(vit, pictures, maps="high")
    with pytest.raises(InputError, match="reads a folder, a file or a glob"):
        theodolite.survey(vit, ["some", "text"])


def test_maps_of_a_model_without_maps_are_rejected(
    vit: Path, wav2vec2: Path, pictures: Path, recordings: Path
) -> None:
    for maps in ("flat", "places"):
        with pytest.raises(InputError, match=rf"--maps {maps} has no effect on .*: no layer of it returns"):
            theodolite.survey(vit, pictures, maps=maps)
    with pytest.raises(InputError, match=r"--maps applies to vision and convolution only"):
        theodolite.survey(wav2vec2, recordings, maps="flat")


def test_a_model_without_a_preprocessor_config_is_rejected(vit: Path, pictures: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    ViTModel.from_pretrained(vit).save_pretrained(bare)
    with pytest.raises(TheodoliteError, match=r"preprocessor_config\.json"):
        theodolite.survey(bare, pictures)
