"""Sound: what a model of speech is fed."""

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
"""From a document, a stretch of a recording, to its sound: mono, at the model's rate, short enough for it."""


class WaveFeeder:
    """Stretches of sound one at a time and unpadded: some models let padding into every state, mask or not."""

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
        """Decode, resample and scale, one stretch a batch."""
        batches = []
        for number, clip in documents:
            sound = self.read(clip)
            item = Item(number, clip.window, clip.name, clip.label)
            batches.append(MediaBatch(self._inputs(sound), (item,), self.frames(len(sound))))
        return batches

    def complete(self, batch: MediaBatch) -> MediaBatch:
        """Return the batch: sound is all that the model needs."""
        return batch

    def _inputs(self, sound: NDArray[np.float32]) -> dict[str, Tensor]:
        made = self.extractor(sound, sampling_rate=self.extractor.sampling_rate, return_tensors="pt")
        return {"input_values": made["input_values"].to(self.dtype)}


class WhisperFeeder:
    """Stretches of sound padded to what Whisper hears at once; only frames with sound count.

    The decoder is fed the transcript that the model itself makes of the stretch, word by word the likeliest.
    """

    def __init__(self, whole: Any, extractor: Any, read: Read, *, dtype: torch.dtype = torch.float32) -> None:
        self.whole, self.extractor, self.read, self.dtype = whole, extractor, read, dtype
        # An encoder position stands for two steps of the spectrogram.
        self.step = 2 * int(extractor.hop_length)
        # Half of what the decoder takes, as Whisper's authors do, so that a transcript that loops comes to an end.
        self.most = int(whole.config.max_target_positions) // 2

    def probe(self) -> dict[str, Tensor]:
        """Return half a second of noise and three tokens."""
        start = int(self.whole.config.decoder_start_token_id)
        tokens = torch.tensor([[start, start, start]])
        return {**self._inputs(noise(self.extractor.sampling_rate)), "decoder_input_ids": tokens}

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> list[MediaBatch]:
        """Decode, resample and make spectrograms, one stretch a batch."""
        batches = []
        for number, clip in documents:
            sound = self.read(clip)
            if len(sound) > self.extractor.n_samples:
                heard, rate = self.extractor.n_samples, self.extractor.sampling_rate
                raise InputError(
                    f"{clip.name}: a stretch of {len(sound) / rate:g} s is more than Whisper hears at once; "
                    f"wanted --max-seconds {heard / rate:g} or less."
                )
            frames = -(-len(sound) // self.step)
            item = Item(number, clip.window, clip.name, clip.label)
            batches.append(MediaBatch(self._inputs(sound), (item,), frames, {"encoder": (frames,)}))
        return batches

    def complete(self, batch: MediaBatch) -> MediaBatch:
        """Add the transcript for the decoder."""
        device = next(self.whole.parameters()).device
        features = batch.inputs["input_features"].to(device)
        with torch.no_grad():
            heard = self.whole.generate(features, max_new_tokens=self.most)[0].cpu()
        end = self.whole.generation_config.eos_token_id
        tokens = [*self._prompt(features), *(token for token in heard.tolist() if token != end)]
        tokens = tokens[: int(self.whole.config.max_target_positions)]
        inputs = batch.inputs | {"decoder_input_ids": torch.tensor([tokens])}
        return replace(batch, inputs=inputs)

    def _prompt(self, features: Tensor) -> list[int]:
        """Return the tokens with which the decoder is set to transcribing without time stamps."""
        settings = self.whole.generation_config
        prompt = [int(self.whole.config.decoder_start_token_id)]
        if getattr(settings, "is_multilingual", False):
            prompt += [int(self.whole.detect_language(features)[0]), int(settings.task_to_id["transcribe"])]
        stamps = getattr(settings, "no_timestamps_token_id", None)
        return prompt if stamps is None else [*prompt, int(stamps)]

    def _inputs(self, sound: NDArray[np.float32]) -> dict[str, Tensor]:
        made = self.extractor(sound, sampling_rate=self.extractor.sampling_rate, return_tensors="pt")
        return {"input_features": made["input_features"].to(self.dtype)}


def noise(rate: int) -> NDArray[np.float32]:
    """Return half a second of quiet noise, the same each time."""
    return (0.1 * np.random.default_rng(0).standard_normal(rate // 2)).astype(np.float32)
