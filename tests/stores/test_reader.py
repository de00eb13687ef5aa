"""Arrays read as stores: blocks, ids and starting rows."""

import numpy as np
import pytest

from theodolite.errors import InputError
from theodolite.stores.reader import ArrayReader


def test_blocks_cover_all_rows_once() -> None:
    vectors = np.arange(20.0).reshape(10, 2)
    reader = ArrayReader(vectors, name="x", digest="0", columns={"id": np.array(list("abcdefghij"))})
    blocks = list(reader.blocks(rows=4))
    assert [len(block) for block in blocks] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([block.vectors for block in blocks]), vectors)
    assert "".join(np.concatenate([block.ids for block in blocks])) == "abcdefghij"


def test_reading_can_start_at_any_row() -> None:
    reader = ArrayReader(np.arange(20.0).reshape(10, 2), name="x", digest="0")
    assert [block.ids.tolist() for block in reader.blocks(7, rows=2)] == [[7, 8], [9]]


def test_integers_are_rejected() -> None:
    with pytest.raises(InputError, match=r"x: expected numbers \(vectors, dim\), got int64"):
        ArrayReader(np.zeros((2, 2), dtype=np.int64), name="x", digest="0")
