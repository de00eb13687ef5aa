"""Opening and scanning a corpus of sound."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from theodolite.errors import InputError
from theodolite.sources.audio.clips import Clip, cut
from theodolite.sources.audio.sound import Sound, open_sound
from theodolite.sources.files import (
    BadFileError,
    Kind,
    Look,
    MediaCorpus,
    MediaFile,
    MediaOptions,
    MediaScan,
    find_media,
    scan_media,
)

AUDIO = Kind("audio", (".wav", ".flac"))
SLOWEST, FASTEST = 2_000, 768_000
_BLOCK = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioOptions(MediaOptions):
    """Which recordings are kept, and how long a clip of one may be.

    A recording shorter than `min_seconds` cannot be used; one longer than `max_seconds` is cut into equal clips.
    """

    min_seconds: float = 0.1
    max_seconds: float = 30.0

    def __post_init__(self) -> None:
        MediaOptions.__post_init__(self)
        if not 0 <= self.min_seconds <= self.max_seconds / 2:  # so written, NaN fails too
            raise InputError(
                f"--min-seconds {self.min_seconds:g} and --max-seconds {self.max_seconds:g}: wanted 0 or more and"
                " a maximum of at least twice the minimum, since long recordings are cut into equal clips."
            )


def open_audio(
    what: str | Path, options: AudioOptions | None = None, progress: Callable[[str], None] | None = None
) -> MediaCorpus[Clip]:
    """Return the corpus that a user means: a folder with all below it, a file, a glob, a name of the catalogue."""
    options = options or AudioOptions()
    files = find_media(what, AUDIO, progress)
    return MediaCorpus(str(what), "audio", files, options, partial(look, options=options))


def scan_audio(
    corpus: MediaCorpus[Clip], *, shard_seconds: float = 300.0, pilot_seconds: float = 120.0
) -> MediaScan[Clip]:
    """Decode every file once; shards hold about `shard_seconds`, the pilot at most `pilot_seconds`."""
    least = min(30.0, pilot_seconds)
    return scan_media(corpus, shard_size=shard_seconds, pilot_size=pilot_seconds, pilot_least=least)


def look(file: MediaFile, *, options: AudioOptions) -> Look[Clip]:
    """Return the clips of a file that can be used; raise BadFileError for one that cannot."""
    with open_sound(file.path, file.name) as sound:
        _check(sound, file.name, options.min_seconds)
        bounds = cut(sound.frames, max(1, int(options.max_seconds * sound.rate)))
        rate = sound.rate
    clips = tuple(
        Clip(file.path, file.name, file.label, start, stop, rate, window)
        for window, (start, stop) in enumerate(bounds)
    )
    return Look(clips, tuple(clip.seconds for clip in clips), f"{rate} Hz")


def _check(sound: Sound, name: str, least: float) -> None:
    """Refuse a recording of an absurd rate, one too short, one that is silent, and one that does not decode."""
    if not SLOWEST <= sound.rate <= FASTEST:
        raise BadFileError(
            name, f"has a rate of {sound.rate:,} samples a second; wanted {SLOWEST:,} to {FASTEST:,}"
        )
    seconds = sound.frames / sound.rate
    if not sound.frames or seconds < least:
        raise BadFileError(name, f"is too short: {seconds:.3g} s, wanted at least {least:g} s")
    lowest, highest = np.inf, -np.inf
    for start in range(0, sound.frames, _BLOCK):
        block = sound.read(start, min(start + _BLOCK, sound.frames))
        lowest, highest = min(lowest, float(block.min())), max(highest, float(block.max()))
        if not np.isfinite(lowest + highest):
            raise BadFileError(name, f"has samples that are not finite, the first of them after {start:,} samples")
    if lowest == highest:
        raise BadFileError(name, "is silent: all its samples are equal")
