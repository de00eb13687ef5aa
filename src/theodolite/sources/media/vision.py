"""Images: the inputs of a vision model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from theodolite.errors import InputError
from theodolite.sources.media.source import Item, MediaBatch

Read = Callable[[Any], Any]
"""From a document to its picture, a PIL image in RGB; raises an InputError with its name if that fails."""


class VisionFeeder:
    """Feeds pictures through the image processor of the model, `size` at a time."""

    def __init__(self, processor: Any, read: Read, *, size: int = 16, dtype: torch.dtype = torch.float32) -> None:
        self.processor, self.read, self.size, self.dtype = processor, read, size, dtype

    def probe(self) -> dict[str, Tensor]:
        """Return one picture of noise, different in every channel and place."""
        from PIL import Image

        noise = np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)
        return {"pixel_values": self._pixels([Image.fromarray(noise)])}

    def prepare(self, documents: Sequence[tuple[int, Any]]) -> list[MediaBatch]:
        """Decode and resize; `size` pictures per batch."""
        return [self._batch(documents[at : at + self.size]) for at in range(0, len(documents), self.size)]

    def complete(self, batch: MediaBatch) -> MediaBatch:
        """Return the batch: the model needs only pictures."""
        return batch

    def _batch(self, documents: Sequence[tuple[int, Any]]) -> MediaBatch:
        pixels = [self._pixels([self.read(document)]) for _, document in documents]
        shapes = {tuple(each.shape[1:]) for each in pixels}
        if len(shapes) > 1:
            other = next(k for k, each in enumerate(pixels) if each.shape != pixels[0].shape)
            raise InputError(
                f"{documents[other][1].name} becomes {tuple(pixels[other].shape[1:])} and {documents[0][1].name} "
                f"{tuple(pixels[0].shape[1:])}: the image processor of this model does not resize; give "
                "pictures of one size."
            )
        items = tuple(Item(number, 0, document.name, document.label) for number, document in documents)
        return MediaBatch({"pixel_values": torch.cat(pixels)}, items)

    def _pixels(self, images: list[Any]) -> Tensor:
        made: Tensor = self.processor(images=images, return_tensors="pt")["pixel_values"]
        return made.to(self.dtype)
