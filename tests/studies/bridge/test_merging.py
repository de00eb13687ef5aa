"""Bridges that are interrupted and resumed, or merged from parts, equal one that was not; errors by documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.small_models import sentences

import theodolite
from theodolite.engines.progress import Listener, Progress
from theodolite.errors import InputError
from theodolite.measures.laboratories.bridge import debiased_cka
from theodolite.statistics.pairs import PairSums
from theodolite.studies.bridge import positions, reading
from theodolite.studies.bridge.bridge import bridge
from theodolite.studies.bridge.positions import GROUPS
from theodolite.studies.bridge.reading import CHECKPOINT
from theodolite.studies.bridge.spaces import Pair, Space, SpaceSums, cka_rows
from theodolite.studies.laboratory import Findings

pytestmark = pytest.mark.filterwarnings(r"ignore:R\^2, neighbours and recall come from")
TEXTS = sentences(120, seed=7)


class StopsAt(Listener):
    """Interrupts a run after some chunks, as Ctrl-C does."""

    def __init__(self, chunks: int) -> None:
        super().__init__()
        self.left = chunks

    def progress(self, progress: Progress) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.fixture
def models(small_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(positions, "CHUNK", 700)  # several chunks
    monkeypatch.setattr(reading, "WRITE_SHARE", 1e9)  # a checkpoint after each
    return small_model("bert"), small_model("gpt2")


def assert_equal(one: Findings, other: Findings) -> None:
    for name, table in one.tables.items():
        pd.testing.assert_frame_equal(other.tables[name], table, check_exact=True)


@pytest.mark.slow
def test_a_resumed_run_gives_the_same_bits(models: tuple[Path, Path], tmp_path: Path) -> None:
    given: dict[str, Any] = {"corpus": TEXTS, "neighbours": 5, "checkpoint_every": 0}
    all_chunks, rest = StopsAt(-1), StopsAt(-1)
    whole = bridge(*models, **given, listener=all_chunks)
    with pytest.raises(KeyboardInterrupt):
        bridge(*models, **given, out=tmp_path / "run", listener=StopsAt(4))
    assert (tmp_path / "run" / CHECKPOINT).is_file()
    with pytest.raises(InputError, match=r"the run in .* was another one: match differs \(word there, document"):
        bridge(*models, **given, out=tmp_path / "run", resume=True, match="document")
    with pytest.raises(InputError, match="was another one: the documents differ"):
        bridge(*models, **given | {"corpus": TEXTS[1:]}, out=tmp_path / "run", resume=True)
    resumed = bridge(*models, **given, out=tmp_path / "run", resume=True, listener=rest)
    assert rest.left - all_chunks.left == 4  # the chunks of the checkpoint are not read again
    assert_equal(whole, resumed)
    assert resumed.facts["positions"] == whole.facts["positions"]
    assert not (tmp_path / "run" / CHECKPOINT).exists()


def test_without_a_checkpoint_it_starts_and_without_a_folder_it_says_so(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    assert bridge(*models, corpus=TEXTS[:20], neighbours=2, out=tmp_path / "new", resume=True).tables
    with pytest.raises(InputError, match=r"resume requires .*out"):
        bridge(*models, corpus=TEXTS[:20], resume=True)


def test_merged_parts_equal_the_whole(models: tuple[Path, Path], tmp_path: Path) -> None:
    given: dict[str, Any] = {"neighbours": 5, "population": "all"}
    whole = bridge(*models, corpus=TEXTS[:60], **given)
    cuts = (TEXTS[:20], TEXTS[20:45], TEXTS[45:60])
    parts = [
        bridge(*models, corpus=part, **given, keep_sums=True, out=tmp_path / str(number))
        for number, part in enumerate(cuts)
    ]
    folders = [tmp_path / str(number) for number in range(3)]
    merged = theodolite.merge_bridges(folders, out=tmp_path / "all")
    for name in ("cka", "cka_se", "cka_biased", "n"):
        assert merged.tables["cka"][name].tolist() == pytest.approx(whole.tables["cka"][name].tolist(), rel=1e-6)
    for name in ("linear_r2", "procrustes_r2", "procrustes_scale", "n_held_out"):
        assert merged.tables["maps"][name].tolist() == pytest.approx(whole.tables["maps"][name].tolist(), rel=1e-4)
    assert merged.facts["corpus"]["documents"] == 60
    assert merged.facts["positions"] == whole.facts["positions"]
    again = theodolite.merge_bridges([theodolite.merge_bridges(parts[:2]), parts[2]])
    assert again.tables["cka"]["cka"].tolist() == pytest.approx(merged.tables["cka"]["cka"].tolist(), rel=1e-9)
    with pytest.raises(InputError, match="have read the same documents: they would count twice"):
        theodolite.merge_bridges([tmp_path / "all", folders[1]])


def test_what_cannot_be_merged_is_said(models: tuple[Path, Path]) -> None:
    given: dict[str, Any] = {"neighbours": 2, "layers": "-1"}
    kept = bridge(*models, corpus=TEXTS[:20], keep_sums=True, **given)
    bare = bridge(*models, corpus=TEXTS[20:40], **given)
    longer = bridge(*models, corpus=TEXTS[20:40], keep_sums=True, **given | {"max_tokens": 32})
    turned = bridge(*models[::-1], corpus=TEXTS[20:40], keep_sums=True, **given)
    with pytest.raises(InputError, match=r"bridge 2 has no sums to merge\. Run it again with "):
        theodolite.merge_bridges([kept, bare])
    with pytest.raises(InputError, match=r"cannot be merged: max_tokens differs \(32 there, 64 here\)"):
        theodolite.merge_bridges([kept, longer])
    with pytest.raises(InputError, match="the weights of the models differ"):
        theodolite.merge_bridges([kept, turned])
    with pytest.raises(InputError, match="at least two bridges"):
        theodolite.merge_bridges([kept])


T_LIMIT = 2.26  # 97.5% quantile of t with 9 degrees of freedom
A, B = Space(0, 0), Space(1, 0)
PAIRS: list[Pair] = [(A, B), (A, A), (B, B)]


def documents(seed: int, count: int = 100, each: int = 12) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Positions of a document share a shift in both spaces; the second is a noisy map of the first."""
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    matrix = torch.randn(6, 4, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    x = draw(count, 1, 6) * torch.tensor([3.0, 2, 1, 1, 1, 1]) + draw(count, each, 6)
    y = x @ matrix + 2 * draw(count, 1, 4) + 2 * draw(count, each, 4)
    group = torch.arange(count) % GROUPS
    return x.flatten(0, 1), y.flatten(0, 1), group.repeat_interleave(each)


def measure(x: torch.Tensor, y: torch.Tensor, group: torch.Tensor) -> dict[str, Any]:
    sums = SpaceSums(dict.fromkeys(PAIRS, GROUPS))
    for part in torch.arange(len(x)).split(400):
        sums.update({A: x[part], B: y[part]}, group[part])
    return cka_rows(sums, [(A, B)])[0]


def test_the_error_of_cka_is_a_jackknife_over_groups() -> None:
    x, y, group = documents(0)
    row = measure(x, y, group)

    def cka(rows: torch.Tensor) -> float:
        found = []
        for one, other in ((x, y), (x, x), (y, y)):
            sums = PairSums(torch.zeros(one.shape[1]), torch.zeros(other.shape[1]))
            sums.update(one[rows], other[rows])
            found.append(sums)
        return debiased_cka(*found)

    without = np.array([cka(group != number) for number in range(GROUPS)])
    assert row["cka"] == pytest.approx(cka(group >= 0), rel=1e-9)
    assert row["cka_se"] == pytest.approx(np.sqrt(0.9 * np.square(without - without.mean()).sum()), rel=1e-6)


def test_the_error_of_cka_matches_replications() -> None:
    """Groups of positions instead of documents would claim less than half of the error."""
    found, positions_only = [], []
    for seed in range(100):
        x, y, group = documents(seed)
        found.append(measure(x, y, group))
        if seed < 20:
            positions_only.append(measure(x, y, torch.arange(len(x)) % GROUPS)["cka_se"])
    spread = np.std([row["cka"] for row in found], ddof=1)
    assert 0.75 < np.mean([row["cka_se"] for row in found]) / spread < 1.35
    assert np.mean(positions_only) / spread < 0.5


def test_permuted_positions_have_a_cka_of_zero_within_its_error() -> None:
    """The null: nothing is shared. What the positions of a document share is not corrected, and is small."""
    x, y, group = documents(0)
    mixed, moved = [], []
    for seed in range(40):
        random = torch.Generator().manual_seed(seed)
        mixed.append(measure(x, y[torch.randperm(len(y), generator=random)], group))
        whole = y.view(100, 12, 4)[torch.randperm(100, generator=random)]
        moved.append(measure(x, whole.flatten(0, 1), group))
    cka, se = (np.array([row[name] for row in mixed]) for name in ("cka", "cka_se"))
    assert abs(cka.mean()) < 4 * cka.std() / np.sqrt(40)
    assert (np.abs(cka) > T_LIMIT * se).mean() < 0.15
    biased = np.array([row["cka_biased"] for row in mixed])
    assert biased.mean() > 4 * biased.std() / np.sqrt(40)  # the usual CKA is not 0
    of_documents = np.array([row["cka"] for row in moved])
    assert 0 < of_documents.mean() < 2 / 100
    assert measure(x, y, group)["cka"] > 10 * of_documents.max()


def test_halves_of_the_documents_differ_by_their_errors() -> None:
    x, y, _ = documents(0, count=200)
    apart = []
    for seed in range(40):
        order = torch.randperm(200, generator=torch.Generator().manual_seed(seed))
        halves = []
        for part in order.split(100):
            rows = (12 * part[:, None] + torch.arange(12)).flatten()
            halves.append(measure(x[rows], y[rows], (torch.arange(100) % GROUPS).repeat_interleave(12)))
        one, other = halves
        apart.append((one["cka"] - other["cka"]) / np.hypot(one["cka_se"], other["cka_se"]))
    assert 0.6 < np.std(apart) < 1.5  # 1 if errors are right; 40 halves of the same documents give it to about 20%


def test_missing_errors_have_a_reason() -> None:
    x, y, group = documents(0, count=3)
    assert "fewer than ten groups" in measure(x, y, group)["se_reason"]
    sums = SpaceSums(dict.fromkeys(PAIRS, 1))
    sums.update({A: x, B: y}, group)
    row = cka_rows(sums, [(A, B)])[0]
    assert row["se_reason"] == "sums by group of documents do not fit in memory"
    assert row["reason"] is None


def test_sentences_are_matched_if_asked(models: tuple[Path, Path]) -> None:
    texts = [f"{one}. {other}! Is it?" for one, other in zip(TEXTS[::2], TEXTS[1::2], strict=True)]
    found = bridge(*models, corpus=texts, match="sentence", neighbours=3, layers="-1")
    assert found.facts["positions"]["matched"] == 3 * len(texts)
    assert "sentence by sentence" in found.facts["matched"]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two!", 2),
        ('He said "no." Then left.', 2),
        ("A\n\nB", 2),
        ("No end", 1),
        ("一。二。", 2),
        ("3.14 is pi.", 1),
    ],
)
def test_where_sentences_end(text: str, count: int) -> None:
    numbers = positions._number_sentences(text)
    assert len(set(numbers[numbers >= 0].tolist())) == count
