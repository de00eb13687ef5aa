"""Corpora of sound: folders of .wav and .flac files, cut into clips."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from theodolite.corpora.audio_files import Samples, Sound, open_sound, resample
from theodolite.corpora.file_search import MediaFile, MediaKind, find_media
from theodolite.corpora.media_corpus import BadFileError, DecodedFile, MediaCorpus, MediaScan, scan_media
from theodolite.corpora.options import MediaOptions
from theodolite.errors import InputError


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
        """The length of the clip."""
        return (self.stop - self.start) / self.rate


def cut_frames(frames: int, most: int) -> list[tuple[int, int]]:
    """Cut a recording into the fewest segments of at most `most` frames, of equal length within one frame.

    Equal, so that no segment is too short to be useful: 31 s in clips of 30 s would leave a clip of one second.

    >>> cut_frames(31, 30)
    [(0, 15), (15, 31)]
    """
    count = max(1, -(-frames // most))
    return [(frames * index // count, frames * (index + 1) // count) for index in range(count)]


def read_clip(clip: Clip, rate: int) -> Samples:
    """Return the clip as mono float32 at this rate, shape (samples,); only this segment of the file is read."""
    with open_sound(clip.path, clip.name) as sound:
        return resample(sound.read, sound.frames, clip.start, clip.stop, clip.rate, rate)


AUDIO = MediaKind("audio", (".wav", ".flac"))
SLOWEST, FASTEST = 2_000, 768_000
_BLOCK = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioOptions(MediaOptions):
    """Which recordings are kept, and the maximum length of a clip.

    A recording shorter than `min_seconds` cannot be used; one longer than `max_seconds` is cut into equal clips.
    """

    min_seconds: float = 0.1
    max_seconds: float = 30.0

    def __post_init__(self) -> None:
        MediaOptions.__post_init__(self)
        if not 0 <= self.min_seconds <= self.max_seconds / 2:  # written this way, NaN fails too
            raise InputError(
                f"--min-seconds {self.min_seconds:g} and --max-seconds {self.max_seconds:g}: expected a minimum "
                "of at least 0 and a maximum of at least twice the minimum, because long recordings are cut into "
                "equal clips."
            )


def open_audio(
    what: str | Path, options: AudioOptions | None = None, progress: Callable[[str], None] | None = None
) -> MediaCorpus[Clip]:
    """Open a corpus of sound: a folder with its sub-folders, a file, a glob or a name of the catalogue."""
    options = options or AudioOptions()
    files = find_media(what, AUDIO, progress)
    return MediaCorpus(str(what), "audio", files, options, partial(open_recording, options=options))


def scan_audio(
    corpus: MediaCorpus[Clip], *, shard_seconds: float = 300.0, pilot_seconds: float = 120.0
) -> MediaScan[Clip]:
    """Decode every file once; shards hold about `shard_seconds`, the pilot at most `pilot_seconds`."""
    least = min(30.0, pilot_seconds)
    return scan_media(corpus, shard_size=shard_seconds, pilot_size=pilot_seconds, pilot_least=least)


def open_recording(file: MediaFile, *, options: AudioOptions) -> DecodedFile[Clip]:
    """Return the clips of a file; raise BadFileError for a file that cannot be used."""
    with open_sound(file.path, file.name) as sound:
        _check(sound, file.name, options.min_seconds)
        bounds = cut_frames(sound.frames, max(1, int(options.max_seconds * sound.rate)))
        rate = sound.rate
    clips = tuple(
        Clip(file.path, file.name, file.label, start, stop, rate, window)
        for window, (start, stop) in enumerate(bounds)
    )
    return DecodedFile(clips, tuple(clip.seconds for clip in clips), f"{rate} Hz")


def _check(sound: Sound, name: str, least: float) -> None:
    """Reject a recording that has an unusual rate, is too short, is silent or does not decode."""
    if not SLOWEST <= sound.rate <= FASTEST:
        raise BadFileError(
            name, f"has a rate of {sound.rate:,} samples per second; expected {SLOWEST:,} to {FASTEST:,}"
        )
    seconds = sound.frames / sound.rate
    if not sound.frames or seconds < least:
        raise BadFileError(name, f"is too short: {seconds:.3g} s; expected at least {least:g} s")
    lowest, highest = np.inf, -np.inf
    for start in range(0, sound.frames, _BLOCK):
        block = sound.read(start, min(start + _BLOCK, sound.frames))
        lowest, highest = min(lowest, float(block.min())), max(highest, float(block.max()))
        if not np.isfinite(lowest + highest):
            raise BadFileError(name, f"has samples that are not finite, the first of them after sample {start:,}")
    if lowest == highest:
        raise BadFileError(name, "is silent: all samples are equal")
