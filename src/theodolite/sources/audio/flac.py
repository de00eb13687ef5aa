"""FLAC through soundfile, whose wheels carry the decoder."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from theodolite.sources.audio.sound import Damaged, Samples

_MOST = 2**40  # a stream whose header does not tell its length claims more than this


@dataclass(frozen=True)
class FlacFile:
    """A FLAC file that soundfile holds open."""

    held: Any
    rate: int
    frames: int

    def read(self, start: int, stop: int) -> Samples:
        """Return frames start to stop, the mean over channels."""
        import soundfile

        try:
            self.held.seek(start)
            channels = self.held.read(stop - start, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise Damaged(str(error)) from error
        if len(channels) != stop - start:
            raise Damaged(f"it ends after {start + len(channels):,} of {self.frames:,} samples")
        return np.asarray(channels.mean(axis=1, dtype=np.float32))


@contextmanager
def open_flac(path: Path) -> Iterator[FlacFile]:
    """Open the file and close it in the end."""
    import soundfile

    try:
        held = soundfile.SoundFile(str(path))
    except soundfile.LibsndfileError as error:
        raise Damaged(str(error).partition(": ")[2] or str(error)) from error
    with held:
        if held.format != "FLAC":
            raise Damaged(f"it is {held.format}, not FLAC")
        if not 0 <= held.frames < _MOST:
            raise Damaged("its header does not tell its length; write it again with a plain encoder")
        yield FlacFile(held, held.samplerate, held.frames)
