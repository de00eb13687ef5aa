"""Names of logged numbers, which sort in the order of the layers."""

from __future__ import annotations

import re

PREFIX = "geometry"


def layer_key(layer_name: str, blocks: int) -> str:
    """Return the name of a layer without spaces, its numbers as wide as that of the last block.

    >>> layer_key("block 3", 12), layer_key("encoder block 10", 12), layer_key("final norm", 12)
    ('block_03', 'encoder_block_10', 'final_norm')
    """
    width = len(str(blocks))
    return re.sub(r"\d+", lambda number: number[0].zfill(width), layer_name.replace(" ", "_"))


def metric_name(layer_name: str, column: str, blocks: int) -> str:
    """Return the name of a column of a layer.

    >>> metric_name("block 3", "effective_rank", 12)
    'geometry/block_03/effective_rank'
    """
    return f"{PREFIX}/{layer_key(layer_name, blocks)}/{column}"
