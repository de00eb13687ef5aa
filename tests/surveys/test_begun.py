"""The first shard may be prepared beside the pilot: once, its very documents, and only where a GPU waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from theodolite.engines.local import fold_shards
from theodolite.surveys.begun import Begun

DOCUMENTS = {3: [(0, "a"), (1, "b")], 5: [(2, "c")], 6: [(3, "d")]}


class Counted:
    """A source that notes what it prepares and what it runs."""

    resident = True
    units = SimpleNamespace(open=False)

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.ran: list[str] = []

    def prepare(self, documents: Sequence[tuple[int, str]]) -> list[Any]:
        self.prepared.append("".join(text for _, text in documents))
        return [SimpleNamespace(positions=1, places=None, text=text) for _, text in documents]

    def run(self, prepared: Any, sink: Any) -> None:
        self.ran.append(prepared.text)


def plan(source: Counted, device: str | None = "cuda") -> Any:
    def read(shards: Sequence[int]) -> Iterator[tuple[int, list[tuple[int, str]]]]:
        for shard in shards:
            yield shard, list(DOCUMENTS[shard])

    return SimpleNamespace(source=source, device=device, shards=[3, 5, 6], read=read)


def folded(source: Counted, begun: Begun, shards: dict[int, Any] = DOCUMENTS) -> None:
    fold_shards(source, {}, shards.items(), told=lambda step: None, begun=begun)  # type: ignore[arg-type]


def test_every_shard_is_prepared_once_and_folded_in_order() -> None:
    source = Counted()
    begun = Begun(plan(source))
    folded(source, begun)
    assert sorted(source.prepared) == ["ab", "c", "d"]
    assert source.ran == ["a", "b", "c", "d"]
    assert begun(3, DOCUMENTS[3]) is None, "what was asked for is let go"


def test_other_documents_than_were_begun_are_prepared_anew() -> None:
    source = Counted()
    begun = Begun(plan(source))
    folded(source, begun, {3: DOCUMENTS[3][:1], 5: DOCUMENTS[5]})
    assert source.ran == ["a", "c"]


@pytest.mark.parametrize(("device", "open_"), [(None, False), ("cuda", True)])
def test_nothing_is_begun_without_a_gpu_or_where_units_are_open(device: str | None, open_: bool) -> None:
    source = Counted()
    source.units = SimpleNamespace(open=open_)  # type: ignore[misc]
    folded(source, Begun(plan(source, device)))
    assert source.prepared == ["ab", "c", "d"]
    assert source.ran == ["a", "b", "c", "d"]


def test_an_error_comes_out_where_the_shard_is_folded() -> None:
    class Fails(Counted):
        def prepare(self, documents: Sequence[tuple[int, str]]) -> list[Any]:
            raise ValueError("a document that no tokenizer takes")

    begun = Begun(plan(Fails()))
    with pytest.raises(ValueError, match="no tokenizer takes"):
        folded(Fails(), begun)
