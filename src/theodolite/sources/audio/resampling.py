"""A stretch of a recording at another rate, equal to the same stretch of the whole recording resampled."""

from collections.abc import Callable
from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from theodolite.sources.audio.sound import Samples

_REACH = 10  # half the filter's length in periods of the slower rate, and
_KAISER = 5.0  # the window's shape: the defaults of scipy.signal.resample_poly


def resampled(
    read: Callable[[int, int], Samples], frames: int, start: int, stop: int, rate: int, wanted: int
) -> Samples:
    """Return the samples n at the wanted rate with start/rate <= n/wanted < stop/rate, from frames of a recording.

    Stretches that abut in the file abut in the result: no sample is lost or counted twice, and at the seams the
    filter sees the neighbour's samples, not silence. Polyphase filtering by a Kaiser window, in float64.
    """
    common = gcd(rate, wanted)
    up, down = wanted // common, rate // common
    if up == down:
        return read(start, stop)
    reach = -(-_REACH * max(up, down) // up) + 1
    # A first frame that is a multiple of `down` falls on a sample of the new rate, so both grids agree.
    begin = max(0, (start - reach) // down * down)
    end = min(frames, stop + reach)
    from scipy.signal import resample_poly

    near = resample_poly(read(begin, end).astype(np.float64), up, down, window=_filter(max(up, down)))  # type: ignore[call-overload]
    origin = begin // down * up
    first, last = -(-start * up // down), -(-stop * up // down)
    return np.asarray(near[first - origin : last - origin], dtype=np.float32)


@lru_cache(maxsize=8)
def _filter(slower: int) -> NDArray[np.float64]:
    """Return the low-pass filter; for rates with little in common, designing it takes longer than using it."""
    from scipy.signal import firwin

    return np.asarray(firwin(2 * _REACH * slower + 1, 1.0 / slower, window=("kaiser", _KAISER)), dtype=np.float64)
