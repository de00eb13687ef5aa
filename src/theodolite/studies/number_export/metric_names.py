"""Names of numbers in logs and experiment trackers, which sort in the order of the layers."""

from __future__ import annotations

import re
from collections.abc import Iterable

PREFIX, HEAD_WIDTH = "geometry", 2
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def clean_name(text: str) -> str:
    """Return a text with only the characters that all trackers allow.

    >>> clean_name("block 3 (added)"), clean_name("01 mean_cosine")
    ('block_3_added', '01_mean_cosine')
    """
    return _UNSAFE.sub("_", text).strip("_")


def layer_key(layer_name: str, blocks: int) -> str:
    """Return the name of a layer without spaces, its numbers as wide as that of the last block.

    Numbers of heads have two digits. Slashes stay: they separate the streams of a block, and folders of numbers in
    trackers.

    >>> layer_key("block 3", 12), layer_key("encoder block 10", 12), layer_key("final norm", 12)
    ('block_03', 'encoder_block_10', 'final_norm')
    >>> layer_key("block 3/k", 12), layer_key("block 3/k/head 7", 6)
    ('block_03/k', 'block_3/k/head_07')
    """

    def pad(part: str) -> str:
        width = HEAD_WIDTH if part.startswith("head_") else len(str(blocks))
        return re.sub(r"\d+", lambda number: number[0].zfill(width), part)

    return "/".join(pad(clean_name(part)) for part in layer_name.split("/"))


def metric_name(layer_name: str, column: str, blocks: int) -> str:
    """Return the name of a column of a layer.

    >>> metric_name("block 3", "effective_rank", 12)
    'geometry/block_03/effective_rank'
    """
    return f"{PREFIX}/{layer_key(layer_name, blocks)}/{column}"


def last_block(layer_names: Iterable[str]) -> int:
    """Return the largest number in names of layers, for models whose number of blocks is not known.

    >>> last_block(["embeddings", "block 1", "block 12"])
    12
    """
    return max((int(number) for name in layer_names for number in re.findall(r"\d+", name)), default=0)
