"""Sound: the inputs of a speech model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from theodolite.errors import InputError
from theodolite.sources.media.source import Item, MediaBatch

Read = Callable[[Any], NDArray[np.float32]]
"""From a document, a segment of a recording, to its sound: mono, at the rate of the model."""


class WaveFeeder:
    """Feeds segments of sound one at a time, unpadded: in some models even masked padding changes every state."""

    def __init__(
        self,
        extractor: Any,
        read: Read,
        frames: Callable[[int], int],
        *,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.extractor, self.read, self.frames, self.dtype = extractor, read, frames, dtype

    def probe(self) -> dict[str, Tensor]:
        """Return half a second of noise."""
        return self._inputs(noise(self.extractor.sampling_rate))

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> list[MediaBatch]:
        """Decode, resample and scale; one segment per batch."""
        batches = []
        for number, clip in documents:
            sound = self.read(clip)
            item = Item(number, clip.window, clip.name, clip.label)
            batches.append(MediaBatch(self._inputs(sound), (item,), self.frames(len(sound))))
        return batches

    def complete(self, batch: MediaBatch) -> MediaBatch:
        """Return the batch: the model needs only sound."""
        return batch

    def _inputs(self, sound: NDArray[np.float32]) -> dict[str, Tensor]:
        made = self.extractor(sound, sampling_rate=self.extractor.sampling_rate, return_tensors="pt")
        return {"input_values": made["input_values"].to(self.dtype)}


class WhisperFeeder:
    """Feeds segments of sound padded to the input length of Whisper; only frames with sound count.

    The input of the decoder is the transcript that the model itself generates greedily for the segment.
    """

    def __init__(self, model: Any, extractor: Any, read: Read, *, dtype: torch.dtype = torch.float32) -> None:
        self.model, self.extractor, self.read, self.dtype = model, extractor, read, dtype
        # An encoder position covers two steps of the spectrogram.
        self.step = 2 * int(extractor.hop_length)
        # Half of the limit of the decoder, as the authors of Whisper do, so that a transcript that repeats itself
        # ends.
        self.most = int(model.config.max_target_positions) // 2

    def probe(self) -> dict[str, Tensor]:
        """Return half a second of noise and three tokens."""
        start = int(self.model.config.decoder_start_token_id)
        tokens = torch.tensor([[start, start, start]])
        return {**self._inputs(noise(self.extractor.sampling_rate)), "decoder_input_ids": tokens}

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> list[MediaBatch]:
        """Decode, resample and compute spectrograms; one segment per batch."""
        batches = []
        for number, clip in documents:
            sound = self.read(clip)
            if len(sound) > self.extractor.n_samples:
                limit, rate = self.extractor.n_samples, self.extractor.sampling_rate
                raise InputError(
                    f"{clip.name}: a segment of {len(sound) / rate:g} s is longer than the input of Whisper; "
                    f"give --max-seconds {limit / rate:g} or less."
                )
            frames = -(-len(sound) // self.step)
            item = Item(number, clip.window, clip.name, clip.label)
            batches.append(MediaBatch(self._inputs(sound), (item,), frames, {"encoder": (frames,)}))
        return batches

    def complete(self, batch: MediaBatch) -> MediaBatch:
        """Add the transcript for the decoder."""
        device = next(self.model.parameters()).device
        features = batch.inputs["input_features"].to(device)
        with torch.no_grad():
            transcript = self.model.generate(features, max_new_tokens=self.most)[0].cpu()
        end = self.model.generation_config.eos_token_id
        tokens = [*self._prompt(features), *(token for token in transcript.tolist() if token != end)]
        tokens = tokens[: int(self.model.config.max_target_positions)]
        inputs = batch.inputs | {"decoder_input_ids": torch.tensor([tokens])}
        return replace(batch, inputs=inputs)

    def _prompt(self, features: Tensor) -> list[int]:
        """Return the prompt of the decoder: transcribe, without time stamps."""
        settings = self.model.generation_config
        prompt = [int(self.model.config.decoder_start_token_id)]
        if getattr(settings, "is_multilingual", False):
            prompt += [int(self.model.detect_language(features)[0]), int(settings.task_to_id["transcribe"])]
        stamps = getattr(settings, "no_timestamps_token_id", None)
        return prompt if stamps is None else [*prompt, int(stamps)]

    def _inputs(self, sound: NDArray[np.float32]) -> dict[str, Tensor]:
        made = self.extractor(sound, sampling_rate=self.extractor.sampling_rate, return_tensors="pt")
        return {"input_features": made["input_features"].to(self.dtype)}


def noise(rate: int) -> NDArray[np.float32]:
    """Return half a second of quiet noise, the same each time."""
    return (0.1 * np.random.default_rng(0).standard_normal(rate // 2)).astype(np.float32)
