"""Models of sound: states equal transformers' own, only where there is sound; Whisper is fed its own words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.media_models import WAVES, Document, sound, wave_model, whisper_model

from theodolite.batch import Batch
from theodolite.errors import InputError
from theodolite.sources.media.source import MediaSource
from theodolite.sources.media.speech import WaveFeeder, WhisperFeeder

DOCUMENTS = [
    (0, Document("abc")),
    (1, Document("de")),
    (2, Document("a longer one")),
    (3, Document("abc", window=1)),
]


def taken(source: MediaSource, documents: list[tuple[int, Document]]) -> dict[int, list[Batch]]:
    kept: dict[int, list[Batch]] = {layer.index: [] for layer in source.layers}
    for prepared in source.prepare(documents):
        source.run(prepared, lambda batch: kept[batch.layer].append(batch))
    return kept


def feeder(model: Any, dtype: torch.dtype = torch.float32) -> WaveFeeder:
    from transformers import Wav2Vec2FeatureExtractor

    frames = model._get_feat_extract_output_lengths
    return WaveFeeder(Wav2Vec2FeatureExtractor(), sound, lambda samples: int(frames(samples)), dtype=dtype)


def scaled(samples: Any) -> torch.Tensor:
    """Scale as wav2vec 2.0's feature extractor does: mean 0, variance 1."""
    wide = samples.astype(np.float64)
    return torch.from_numpy(((wide - wide.mean()) / np.sqrt(wide.var() + 1e-7)).astype(np.float32))[None]


@pytest.mark.parametrize("name", WAVES)
class TestWaves:
    def test_layers(self, name: str) -> None:
        names = ["embeddings", "block 1", "block 2", "block 3"] + (["final norm"] if WAVES[name][2] else [])
        source = MediaSource(wave_model(name), feeder(wave_model(name)))
        assert [layer.name for layer in source.layers] == names
        assert [layer.library_index for layer in source.layers[:4]] == [0, 1, 2, 3]
        assert {layer.dim for layer in source.layers} == {32}

    def test_states_do_not_depend_on_the_rest_of_the_batch(self, name: str) -> None:
        model = wave_model(name)
        source = MediaSource(model, feeder(model))
        found = taken(source, DOCUMENTS)
        for number, (_, document) in enumerate(DOCUMENTS):
            with torch.no_grad():
                library = model(scaled(sound(document)), output_hidden_states=True)
            for layer, batches in found.items():
                info, batch = source.layers[layer], batches[number]
                theirs = library.last_hidden_state if info.library_index is None else library.hidden_states[layer]
                assert len(batch.states) == theirs.shape[1] == source.prepare(DOCUMENTS)[number].positions
                # The extractor scales in float32, the oracle in float64.
                assert (batch.states - theirs[0]).norm() <= 1e-4 * theirs.norm(), info.name
                assert batch.places.first.tolist() == [True] + [False] * (len(batch.states) - 1)
        keys = torch.cat([batch.places.key for batch in found[0]])
        assert len(keys.unique()) == len(keys)

    def test_half_precision(self, name: str) -> None:
        model = wave_model(name).to(torch.bfloat16)
        source = MediaSource(model, feeder(model, torch.bfloat16))
        assert [layer.library_index for layer in source.layers[:4]] == [0, 1, 2, 3]
        assert taken(source, DOCUMENTS)[3][0].states.dtype == torch.bfloat16


def test_padding_would_change_the_states_of_a_group_norm() -> None:
    # The tempting wrong way: sounds of several lengths in one batch, under a mask. The norm of the first
    # convolution runs over time, silence included.
    from transformers import Wav2Vec2FeatureExtractor

    model = wave_model("Wav2Vec2")
    short, long = (scaled(sound(document))[0] for document in (DOCUMENTS[1][1], DOCUMENTS[2][1]))
    both = Wav2Vec2FeatureExtractor(return_attention_mask=True).pad(
        [{"input_values": short.numpy()}, {"input_values": long.numpy()}], padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        padded = model(both["input_values"], attention_mask=both["attention_mask"]).last_hidden_state[0]
        alone = model(short[None]).last_hidden_state[0]
    assert (padded[: len(alone)] - alone).norm() > 0.05 * alone.norm()


@pytest.fixture(scope="module")
def whisper() -> WhisperFeeder:
    from transformers import WhisperFeatureExtractor

    return WhisperFeeder(whisper_model(), WhisperFeatureExtractor(), sound)


class TestWhisper:
    def test_layers(self, whisper: WhisperFeeder) -> None:
        source = MediaSource(whisper.model.model, whisper)
        assert [(layer.name, layer.library_index) for layer in source.layers] == [
            ("encoder embeddings", 0),
            ("encoder block 1", 1),
            ("encoder block 2", None),
            ("encoder final norm", 2),
            ("decoder embeddings", 0),
            ("decoder block 1", 1),
            ("decoder block 2", 2),
            ("decoder block 3", None),
            ("decoder final norm", 3),
        ]

    def test_states_frames_and_tokens(self, whisper: WhisperFeeder) -> None:
        source = MediaSource(whisper.model.model, whisper)
        documents = DOCUMENTS[:2]
        found = taken(source, documents)
        for number, (_, document) in enumerate(documents):
            samples = sound(document)
            features = whisper.extractor(samples, sampling_rate=16_000, return_tensors="pt").input_features
            fed = spoken(whisper.model, features)
            with torch.no_grad():
                output = whisper.model.model(features, decoder_input_ids=fed, output_hidden_states=True)
            assert output.encoder_last_hidden_state.shape[1] == 1500  # 30 s, most of it padding
            frames = int(np.ceil(len(samples) / 320))
            assert source.prepare(documents)[number].positions == frames
            for layer, batches in found.items():
                info, states = source.layers[layer], batches[number].states
                assert len(states) == (frames if info.stack == "encoder" else fed.shape[1]), info.name
                if info.library_index is not None:
                    theirs = getattr(output, f"{info.stack}_hidden_states")[info.library_index][0, : len(states)]
                    assert (states - theirs).norm() <= 1e-5 * theirs.norm(), info.name

    def test_a_clip_longer_than_the_model_limit_is_rejected(self, whisper: WhisperFeeder) -> None:
        long = WhisperFeeder(whisper.model, whisper.extractor, lambda _: np.ones(480_001, np.float32))
        with pytest.raises(InputError, match=r"abc: a segment of 30.0001 s is longer .* --max-seconds 30 or less"):
            long.prepare(DOCUMENTS[:1])

    def test_half_precision(self, whisper: WhisperFeeder) -> None:
        half = WhisperFeeder(whisper_model().to(torch.bfloat16), whisper.extractor, sound, dtype=torch.bfloat16)
        found = taken(MediaSource(half.model.model, half), DOCUMENTS[:1])
        assert found[8][0].states.dtype == torch.bfloat16


def spoken(model: Any, features: torch.Tensor) -> torch.Tensor:
    """Return prompt and transcript by the definition: the likeliest next token, again and again, to the end."""
    settings = model.generation_config
    ids = [model.config.decoder_start_token_id, settings.no_timestamps_token_id]
    prompt_length = len(ids)
    while len(ids) < prompt_length + model.config.max_target_positions // 2:  # the largest number of tokens
        with torch.no_grad():
            logits = model(features, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
        if len(ids) == prompt_length and settings.begin_suppress_tokens:
            logits[settings.begin_suppress_tokens] = -torch.inf
        token = int(logits.argmax())
        if token == settings.eos_token_id:
            break
        ids.append(token)
    return torch.tensor([ids])
