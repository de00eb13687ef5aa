"""Read .wav and .flac files as mono sound at any sample rate."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.corpora.media_corpus import BadFileError

Samples = NDArray[np.float32]
FORMATS = {".wav": ("WAV", "WAVEX"), ".flac": ("FLAC",)}  # by ending, as libsndfile calls them
WAV_SAMPLES = ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")
_MOST_FRAMES = 2**40  # a stream whose header does not state its length claims more than this
_UNKNOWN_SIZE = 0xFFFFFFFF  # what programs that stream write for a size that they do not know yet
# libsndfile reads what is left of a truncated file without an error, but notes it in its log.
_TRUNCATED = re.compile(r"^data : (\d+) \(should be (\d+)\)", re.MULTILINE)


class UndecodableError(Exception):
    """The file is not what its ending says, or it is truncated."""


@dataclass(frozen=True)
class Sound:
    """An open sound file: its rate and length from the header, any segment of it as mono."""

    file: Any  # soundfile.SoundFile
    rate: int  # samples per second
    frames: int  # samples per channel

    def read(self, start: int, stop: int) -> Samples:
        """Return frames start to stop as float32 in [-1, 1], the mean over channels; shape (stop - start,)."""
        import soundfile

        try:
            self.file.seek(start)
            channels = self.file.read(stop - start, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise UndecodableError(str(error)) from error
        if len(channels) != stop - start:
            raise UndecodableError(f"it ends after {start + len(channels):,} of {self.frames:,} samples")
        return np.asarray(channels.mean(axis=1, dtype=np.float32))


@contextmanager
def open_sound(path: Path, name: str) -> Iterator[Sound]:
    """Open a .wav or .flac file; every problem with it is raised as a BadFileError with this name."""
    try:
        with path.open("rb"), _open_soundfile(path) as sound:  # libsndfile does not say why a file does not open
            yield sound
    except UndecodableError as error:
        raise BadFileError(name, f"does not decode ({error})") from error
    except OSError as error:
        raise BadFileError(name, f"cannot be read ({error.strerror or error})") from error


@contextmanager
def _open_soundfile(path: Path) -> Iterator[Sound]:
    import soundfile

    try:
        file = soundfile.SoundFile(str(path))
    except soundfile.LibsndfileError as error:
        raise UndecodableError((str(error).partition(": ")[2] or str(error)).rstrip(".")) from error
    with file:
        _check_header(file, path.suffix.lower())
        yield Sound(file, file.samplerate, file.frames)


def _check_header(file: Any, ending: str) -> None:
    """Reject other formats than the ending says, compressed samples, truncated files and unknown lengths."""
    if file.format not in FORMATS[ending]:
        raise UndecodableError(f"it is {file.format}, not {FORMATS[ending][0]}")
    if ending == ".wav" and file.subtype not in WAV_SAMPLES:
        raise UndecodableError(f"its samples are {file.subtype}; convert it to 16-bit PCM")
    if not 0 <= file.frames < _MOST_FRAMES:
        raise UndecodableError("its header does not state its length; write it again with another encoder")
    truncated = _TRUNCATED.search(file.extra_info) if ending == ".wav" else None
    if truncated and int(truncated[1]) != _UNKNOWN_SIZE:
        raise UndecodableError(
            f"it is truncated: it has {int(truncated[2]):,} of {int(truncated[1]):,} bytes of samples"
        )


_REACH = 10  # half the length of the filter, in periods of the slower rate
_KAISER = 5.0  # the shape of the window; both are the defaults of scipy.signal.resample_poly


def resample(
    read: Callable[[int, int], Samples], frames: int, start: int, stop: int, rate: int, new_rate: int
) -> Samples:
    """Return the samples n at the new rate with start/rate <= n/new_rate < stop/rate, from frames of a recording.

    scipy.signal.resample_poly filters arrays of complete recordings; this function calls it for a segment. The
    result equals the same segment of the complete recording resampled: adjacent segments of the file stay
    adjacent, no sample is lost or counted twice, and at the edges the filter reads the neighbouring samples and
    not silence. Polyphase filtering with a Kaiser window, in float64.
    """
    common = gcd(rate, new_rate)
    up, down = new_rate // common, rate // common
    if up == down:
        return read(start, stop)
    reach = -(-_REACH * max(up, down) // up) + 1
    # A first frame that is a multiple of `down` falls on a sample of the new rate, so that both grids agree.
    begin = max(0, (start - reach) // down * down)
    end = min(frames, stop + reach)
    from scipy.signal import resample_poly

    resampled = resample_poly(read(begin, end).astype(np.float64), up, down, window=_filter(max(up, down)))  # type: ignore[call-overload]
    origin = begin // down * up
    first, last = -(-start * up // down), -(-stop * up // down)
    return np.asarray(resampled[first - origin : last - origin], dtype=np.float32)


@lru_cache(maxsize=8)
def _filter(slower: int) -> NDArray[np.float64]:
    """Return the low-pass filter; for rates with little in common, designing it takes longer than applying it."""
    from scipy.signal import firwin

    return np.asarray(firwin(2 * _REACH * slower + 1, 1.0 / slower, window=("kaiser", _KAISER)), dtype=np.float64)
