"""Memory is estimated before a run, and a run that would not fit is rejected with a fix."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import psutil
import pytest
from tests.shared import slow
from tests.small_models import FACTS, sentences

from theodolite.engines.engine import WorkerMemory
from theodolite.errors import InputError, MemoryLimitError
from theodolite.models.layers import Layer
from theodolite.surveys import memory
from theodolite.surveys.api import survey
from theodolite.surveys.options import SurveyOptions, list_options, parse_size
from theodolite.surveys.unit_counts import UnitCounts
from theodolite.text import format_bytes

DOCUMENTS = sentences(30, seed=51)
LAYERS = [Layer(index, f"block {index}", 64) for index in range(12)]


def test_the_help_says_what_the_limit_covers() -> None:
    (found,) = list_options(SurveyOptions, ["memory"])
    assert "statistics, tables and held states" in found.option.help
    assert "the forward pass of the model is not included" in found.option.help


def test_a_survey_that_does_not_fit_is_rejected(small_model: Any) -> None:
    with pytest.raises(InputError) as caught:
        survey(small_model("bert"), DOCUMENTS, memory=2**20)
    words = str(caught.value)
    assert words.startswith("This survey needs about ")
    assert "for 4 layers and" in words
    assert "1.0 MB may be used" in words
    for way in ("--layers", "--units", "--memory"):
        assert way in words


def test_types_are_counted_only_where_the_bound_would_not_fit() -> None:
    def needed(types: int) -> int:
        return memory.estimate_bytes(LAYERS, types, sample_size=100, populations=3)

    def fail() -> int:
        raise AssertionError("counted in vain")

    roomy = memory.check_memory(LAYERS, 5000, fail, budget=needed(5000), sample_size=100, populations=3)
    assert roomy.facts() == {"types": 5000, "bytes": needed(5000), "budget": needed(5000)}
    tight = memory.check_memory(LAYERS, 5000, lambda: 70, budget=needed(5000) - 1, sample_size=100, populations=3)
    assert tight.facts() == {"types": 70, "bytes": needed(70), "budget": needed(5000) - 1}
    assert roomy.bytes_within(needed(5000)) == needed(5000)
    roomy.count = lambda: 70
    assert roomy.bytes_within(needed(5000) - 1) == needed(70)  # somebody else has less
    roomy.count = fail
    assert roomy.bytes_within(needed(70)) == needed(70)
    with pytest.raises(InputError, match="12 layers and 4,999 units"):
        memory.check_memory(LAYERS, 5000, lambda: 4999, budget=needed(100), sample_size=100, populations=3)


@pytest.mark.parametrize("kind", [slow("id"), "word"])
def test_counted_types_are_those_seen(small_model: Any, kind: str) -> None:
    whole = survey(small_model("gpt2"), DOCUMENTS, units=kind)
    bound = whole.facts["memory"]
    assert bound["types"] >= whole.facts["counts"]["types"]
    counted = survey(small_model("gpt2"), DOCUMENTS, units=kind, memory=bound["bytes"] - 1)
    assert counted.facts["memory"]["types"] == whole.facts["counts"]["types"]
    assert counted.tokens.equals(whole.tokens)
    assert counted.units.equals(whole.units)


def test_the_estimate_covers_what_is_held(small_model: Any) -> None:
    found = survey(small_model("bert"), DOCUMENTS)
    held = sum(
        tensor.numel() * tensor.element_size()
        for fold in found.state.folds.values()
        for name, tensor in fold.state().items()
        if not name.startswith(("norms.", "groups."))  # of fixed size, some hundred kilobytes a layer
    )
    assert held <= found.facts["memory"]["bytes"]


def test_more_of_anything_needs_more_memory() -> None:
    base = memory.estimate_bytes(LAYERS, 1000, sample_size=100, populations=3)
    assert memory.estimate_bytes(LAYERS[:6], 1000, sample_size=100, populations=3) < base
    assert memory.estimate_bytes(LAYERS, 2000, sample_size=100, populations=3) > base
    assert memory.estimate_bytes(LAYERS, 1000, sample_size=200, populations=3) > base
    assert memory.estimate_bytes(LAYERS, 1000, sample_size=100, populations=1) < base


def test_the_estimate_by_hand() -> None:
    """Unit tables, matrices, samples, counts by group and sums of frequent units by group of each layer; then unit
    sums of one layer and nine numbers per row."""
    layer = 8 * 1000 * (64 + 3) + 2 * 8 * 64**2 + 2 * 100 * (4 * 64 + 24)
    layer += 1000 * (8 + 4 * 20) + 2 * 96 * 20 * 8 * (64 + 3)
    tables = 3 * 8 * 1000 * 64 + 8 * 9 * 1000 * 12 * 3
    assert memory.estimate_bytes(LAYERS, 1000, sample_size=100, populations=3) == 12 * layer + tables == 37_773_312


def test_fewer_vectors_than_coordinates_need_no_matrix() -> None:
    known = {"sample_size": 100, "populations": 3}
    base = memory.estimate_bytes(LAYERS, 1, **known)
    assert memory.estimate_bytes(LAYERS, 1, vectors=100, **known) == base
    sample = 2 * 90 * (4 * 64 + 24)  # which holds at most all vectors
    assert memory.estimate_bytes(LAYERS, 1, vectors=10, **known) == base - 12 * (2 * 8 * 64 * 54 + sample)
    with_sinks = memory.estimate_bytes(LAYERS, 1, sinks=True, **known)
    few = memory.estimate_bytes(LAYERS, 1, sinks=True, vectors=10, **known)
    assert few == with_sinks - 12 * (4 * 8 * 64 * 54 + sample)


def test_counting_never_finds_more_units_than_the_bound() -> None:
    """Files count the items of a batch, which is more than one unit for all of them."""
    known = {"sample_size": 100, "populations": 3}
    budget = memory.estimate_bytes(LAYERS, 1, **known)
    with pytest.raises(InputError, match="for 12 layers, but"):
        memory.check_memory(LAYERS, 1, lambda: 16, budget=budget - 1, **known)


def test_without_a_budget_most_of_the_free_memory_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Free:
        available = 1000

    monkeypatch.setattr(psutil, "virtual_memory", Free)
    with pytest.raises(InputError, match="800 bytes may be used"):
        memory.check_memory(LAYERS, 10, lambda: 10, budget=None, sample_size=0, populations=1)


def reject(small_model: Any, **given: Any) -> str:
    """Return the message for a survey in 100 kB."""
    with pytest.raises(MemoryLimitError) as caught:
        survey(small_model("gpt2"), DOCUMENTS, memory=100_000, **given)
    return str(caught.value)


def test_the_advice_names_options_that_help(small_model: Any) -> None:
    words = reject(small_model, min_count=1)
    assert "choose coarser --units or --units none, use a smaller --sample-size, or allow more with" in words
    assert "--sample-size" not in reject(small_model, min_count=1, sample_size=0)
    assert "--units" not in reject(small_model, units="none")
    words = reject(small_model, contextuality=True)
    assert "choose coarser --units, omit --contextuality, " in words
    assert "--units none" not in words


def test_a_min_count_that_was_given_may_be_omitted(small_model: Any) -> None:
    omit = "Or omit --min-count: the survey then chooses the smallest one with which it fits, if any does."
    for min_count in (1, 3):
        assert reject(small_model, min_count=min_count).endswith(omit)
    for given in ({}, {"contextuality": True}, {"contextuality": True, "min_count": 1}, {"units": "none"}):
        assert "omit --min-count" not in reject(small_model, **given)


def test_parts_may_be_given_a_min_count(small_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.surveys.text_survey.SHARD_CHARS", 500)
    words = "so that all parts agree. With --min-count 1, given for all parts, only the units of this part are"
    assert words in reject(small_model, part="0/4")
    assert words not in reject(small_model)
    assert words not in reject(small_model, part="0/4", min_count=1)


class TestWorkers:
    """A corpus of 50,000 units, unit i with about 50,000 / i occurrences."""

    known: ClassVar[dict[str, Any]] = {"sample_size": 100, "populations": 3}

    @pytest.fixture(scope="class")
    def counts(self) -> UnitCounts:
        none = np.zeros(0, dtype=np.int64)
        return UnitCounts(np.arange(50_000), 50_000 // np.arange(1, 50_001), special=none, first=none)

    def check(self, of: UnitCounts, share: int, **given: Any) -> memory.Estimate:
        worker = WorkerMemory(share, "small", 2)
        options = {"budget": None, "counts": lambda: of, "worker": worker, **self.known, **given}
        return memory.check_memory(LAYERS, len(of), lambda: len(of), **options)

    def need(self, counts: UnitCounts, min_count: int) -> int:
        kept = counts.choose(min_count)
        return memory.estimate_bytes(LAYERS, len(counts), kept=kept, **self.known)

    def test_the_smallest_min_count_that_fits_in_a_worker(self, counts: UnitCounts) -> None:
        for min_count in (2, 5):
            found = self.check(counts, self.need(counts, min_count))
            assert found.kept is not None
            assert found.kept.min_count == min_count
            assert self.check(counts, found.bytes - 1).kept.min_count == min_count + 1  # type: ignore[union-attr]
        assert self.check(counts, 2**60).kept is None

    def test_this_process_may_have_less(self, counts: UnitCounts, monkeypatch: pytest.MonkeyPatch) -> None:
        free = SimpleNamespace(available=int(self.need(counts, 5) / memory.MEMORY_SHARE) + 1)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
        for share, min_count in ((2**60, 5), (self.need(counts, 7), 7)):
            found = self.check(counts, share)
            assert found.kept is not None
            assert found.kept.min_count == min_count
            assert found.budget == int(memory.MEMORY_SHARE * free.available)  # that of this process, for tables

    def test_a_budget_that_was_given_decides(self, counts: UnitCounts) -> None:
        budget, share = self.need(counts, 5), self.need(counts, 7)
        found = self.check(counts, budget, budget=budget)
        assert found.kept is not None
        assert found.kept.min_count == 5
        with pytest.raises(
            MemoryLimitError, match=r"even with --min-count 5, .* by each worker on small \(its w.*: 2"
        ):
            self.check(counts, share, budget=budget)
        with pytest.raises(
            MemoryLimitError, match=r"50,000 units, .* If --min-count or --memory was given, omit it"
        ):
            self.check(counts, share, budget=2**60)
        with pytest.raises(MemoryLimitError, match=r"1\.0 kB may be used\. .* or allow more with --memory\.$"):
            self.check(counts, share, budget=1000)  # too little for any machine

    def test_a_min_count_that_was_given_decides(self, counts: UnitCounts) -> None:
        given = {"counts": None, "kept": counts.choose(5)}
        assert self.check(counts, self.need(counts, 5), **given).kept is given["kept"]
        with pytest.raises(MemoryLimitError, match=r"even with --min-count 5, .* was given, omit it"):
            self.check(counts, self.need(counts, 7), **given)

    def test_other_kinds_of_units_share_the_memory_of_a_worker(self, counts: UnitCounts) -> None:
        first = self.check(counts, 2**60)
        second = self.check(counts, first.bytes + self.need(counts, 5), others=[first])
        assert second.kept is not None
        assert second.kept.min_count == 5

    def test_less_than_any_min_count_needs(self, counts: UnitCounts) -> None:
        least = self.need(counts, max(counts.min_counts))
        assert self.check(counts, least).kept is not None
        with pytest.raises(MemoryLimitError, match=r"even with --min-count 50001, .* with more memory\.$"):
            self.check(counts, least - 1)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8G", 2**33),
        ("512M", 2**29),
        ("1.5g", 3 * 2**29),
        ("64k", 2**16),
        ("2 TB", 2**41),
        ("3GiB", 3 * 2**30),
        ("77", 77),
    ],
)
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1G", "0", "G", "8Q", "1e400", "nan"])
def test_an_invalid_size_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match=r"is not a size\. Write it as 8G, 512M or a number of bytes"):
        parse_size(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(7, "7 bytes"), (2**20, "1.0 MB"), (3 * 2**30, "3.0 GB"), (1500, "1.5 kB"), (2**50, "1024.0 TB")],
)
def test_sizes_are_formatted(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_families_have_the_dims_that_the_estimate_uses(small_model: Any) -> None:
    found = survey(small_model("llama"), DOCUMENTS, layers="0,-1")
    assert [layer.dim for layer in found.layer_objects()] == [FACTS["llama"].dim] * 2


def test_the_number_of_layers_that_fit_is_reported_only_if_positive(small_model: Any) -> None:
    with pytest.raises(InputError, match=r"--layers; about [123] would fit"):
        survey(small_model("bert"), DOCUMENTS, memory=4 * 2**20)
    with pytest.raises(InputError, match=r"\(--layers\), "):
        survey(small_model("bert"), DOCUMENTS, memory=2**10)
