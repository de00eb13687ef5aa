"""Which few tokens to show by themselves: those asked for, else the word that parts most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.errors import InputError
from theodolite.studies.trace.paths import ordinary
from theodolite.studies.trace.trails import Trails

Mask = NDArray[np.bool_]


def chosen_tokens(trails: Trails, words: Sequence[str], partings: pd.DataFrame | None) -> Mask:
    """Say which tokens are shown by themselves. (tokens,)

    Without words: of two sentences, the shared token that is farthest apart in the end, in both; of one, its
    first two tokens of text.
    """
    if words:
        wanted = {word.strip().casefold() for word in words}
        return np.array([text.strip().casefold() in wanted for text in trails.text], dtype=bool)
    found = np.zeros(len(trails.ids), dtype=bool)
    first = trails.sentence == 0
    kept = np.flatnonzero(ordinary(trails) & first)
    kept = kept if len(kept) else np.flatnonzero(first)
    if partings is not None:
        shared = partings[partings["same"] & partings["position"].isin(trails.position[kept])]
        if shared["distance_last"].notna().any():
            most = shared.iloc[int(shared["distance_last"].argmax())]
            for sentence, position in ((0, most["position"]), (most["other"], most["position_other"])):
                found |= (trails.sentence == sentence) & (trails.position == position)
            return found
    found[kept[:2]] = True
    return found


def check_words(trails: Sequence[Trails], words: Sequence[str]) -> None:
    """Refuse a word that is no token of any sentence, naming the tokens that there are."""
    known = dict.fromkeys(text.strip() for each in trails for text in each.text)
    folded = {text.casefold() for text in known}
    for word in words:
        if word.strip().casefold() not in folded:
            raise InputError(
                f"--token {word!r} is no token of these sentences; their tokens are {', '.join(list(known)[:40])}."
            )
