"""Clips: stretches of recordings that a model can take at once."""

from dataclasses import dataclass
from pathlib import Path

from theodolite.sources.audio.resampling import resampled
from theodolite.sources.audio.sound import Samples, open_sound


@dataclass(frozen=True, slots=True)
class Clip:
    """Frames `start` to `stop` of the file, at its own `rate`; the `window`-th clip of that file, from 0."""

    path: Path
    name: str
    label: str
    start: int
    stop: int
    rate: int
    window: int

    @property
    def seconds(self) -> float:
        """How long the clip is."""
        return (self.stop - self.start) / self.rate


def cut(frames: int, most: int) -> list[tuple[int, int]]:
    """Cut a recording into the fewest stretches of at most `most` frames, as equal as can be.

    Equal, so that none is too short to say anything: 31 s in clips of 30 would leave one second over.

    >>> cut(31, 30)
    [(0, 15), (15, 31)]
    """
    count = max(1, -(-frames // most))
    return [(frames * index // count, frames * (index + 1) // count) for index in range(count)]


def read_clip(clip: Clip, rate: int) -> Samples:
    """Return the clip as mono float32 at this rate, shape (samples,); only its stretch of the file is read."""
    with open_sound(clip.path, clip.name) as sound:
        return resampled(sound.read, sound.frames, clip.start, clip.stop, clip.rate, rate)
