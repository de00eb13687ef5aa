"""One sound file, open: its rate and length from the header, any stretch of it as mono."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from theodolite.errors import TheodoliteError
from theodolite.sources.files import BadFileError

Samples = NDArray[np.float32]


class Sound(Protocol):
    """A file of which stretches can be read."""

    @property
    def rate(self) -> int:
        """Samples a second."""

    @property
    def frames(self) -> int:
        """How many samples each channel has."""

    def read(self, start: int, stop: int) -> Samples:
        """Return frames start to stop as float32 in [-1, 1], the mean over channels; shape (stop - start,)."""


@contextmanager
def open_sound(path: Path, name: str) -> Iterator[Sound]:
    """Open a .wav or .flac file; whatever goes wrong with it is a BadFileError under this name."""
    from theodolite.sources.audio.flac import open_flac
    from theodolite.sources.audio.wav import open_wav

    flac = path.name.lower().endswith(".flac")
    if flac:
        need_soundfile(name)
    try:
        with open_flac(path) if flac else open_wav(path) as sound:
            yield sound
    except Damaged as error:
        raise BadFileError(name, f"does not decode ({error})") from error
    except OSError as error:
        raise BadFileError(name, f"cannot be read ({error.strerror or error})") from error


class Damaged(Exception):  # noqa: N818  an adjective here, not an error by itself
    """The file is not what its ending says, or is cut short."""


def need_soundfile(name: str) -> None:
    """Raise unless the package that reads FLAC is installed."""
    if importlib.util.find_spec("soundfile") is None:
        raise TheodoliteError(f"Reading '{name}' needs soundfile: pip install 'theodolite[audio]'")
