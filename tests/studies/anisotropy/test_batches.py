"""Batches of a second pass, compared with stored states, a loop and numpy's SVD; and rejected input."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from tests.encoder_decoders import saved
from tests.shared import slow
from tests.small_models import POSITIONS, load, sentences

import theodolite as package
from theodolite.engines.progress import Listener
from theodolite.errors import DamagedError, InputError, TheodoliteError
from theodolite.hashing import mix
from theodolite.state.pilot import Pilot
from theodolite.statistics.cells import POPULATIONS
from theodolite.studies.anisotropy.batch_tables import BATCHES, TABLE, read_batches, summarise_batches
from theodolite.studies.anisotropy.batches import (
    BatchOptions,
    make_batches,
    measure_layer_batches,
    required_positions,
)
from theodolite.studies.reading import read_survey_data
from theodolite.surveys.chunks import SALT, Chunk, ChunkStates, choose_chunks, group_layers, window_sizes
from theodolite.surveys.reopen import check_readable, reopen
from theodolite.surveys.token_sets import PositionFilter

ROUNDING = 1e-5  # float32 states of three blocks, in batches padded otherwise, and float32 products
LINE = 1.3  # random models have no norm ten times the median
SIZE, COUNT = 150, 4
TEXTS = [*sentences(60, longest=10), " ".join(sentences(40, seed=5)), "", *sentences(20, seed=7)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpora") / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, small_model: Callable[[str], Path], corpus: Path) -> Path:
    out = tmp_path_factory.mktemp("surveys") / "gpt2"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("theodolite.state.pilot.MASSIVE", LINE)
        package.survey(small_model("gpt2"), corpus, out=out, sample_size=8)
    return out


@pytest.fixture
def surveyed(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("theodolite.state.pilot.MASSIVE", LINE)
    return shutil.copytree(source, tmp_path / "survey")


class Kept(NamedTuple):
    """One window by plain transformers: every layer's states, and what its positions saw."""

    document: int
    number: int
    states: list[np.ndarray[Any, Any]]
    seen: list[tuple[int, ...]]


def everything(folder: Path, numbers: list[int]) -> list[Kept]:
    """Run every window by itself; documents have their numbers."""
    model, tokenizer = load(folder)
    kept, taken = [], list[torch.Tensor]()
    for block in (model.drop, *model.h):
        block.register_forward_hook(lambda _, __, out: taken.append(out[0] if isinstance(out, tuple) else out))
    texts = [text for text in TEXTS if text]
    for document, text in zip(numbers, texts, strict=True):
        ids = tokenizer(text)["input_ids"]
        for number, start in enumerate(range(0, len(ids), POSITIONS)):
            part = ids[start : start + POSITIONS]
            taken.clear()
            with torch.no_grad():
                last = model(torch.tensor([part])).last_hidden_state
            states = [one[0].double().numpy() for one in (*taken, last)]
            kept.append(Kept(document, number, states, [tuple(part[: k + 1]) for k in range(len(part))]))
    return kept


def svd(x: np.ndarray[Any, Any], centre: np.ndarray[Any, Any] | None = None) -> float:
    s = np.linalg.svd(x - (x.mean(axis=0) if centre is None else centre), compute_uv=False)
    return float(s[0] ** 2 / (s**2).sum())


def dimension(x: np.ndarray[Any, Any]) -> float:
    """TwoNN, keep-90, of distinct points."""
    distances = np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2))
    np.fill_diagonal(distances, np.inf)
    near = np.sort(distances, axis=1)
    log_mu = np.sort(np.log(near[:, 1] / near[:, 0]))[: 9 * len(x) // 10]
    y = -np.log1p(-np.arange(1, len(log_mu) + 1) / len(x))
    return float(log_mu @ y / (log_mu @ log_mu))


@pytest.fixture(scope="module")
def kept(source: Path, small_model: Callable[[str], Path]) -> tuple[list[list[Kept]], list[Kept], int]:
    """Cut by a loop, choose by hash; also every window, and the corpus's key."""
    survey = read_survey_data(source, ("layers",))
    reopened = reopen(survey.facts, [1])
    numbers = [number for some in reopened.documents() for number, _ in some]
    every = everything(small_model("gpt2"), numbers)
    chunks: list[list[Kept]] = [[]]
    for window in every:
        chunks[-1].append(window)
        if sum(len(one.seen) - 1 for one in chunks[-1]) >= required_positions(survey, SIZE):
            chunks.append([])
    key = int(survey.facts["corpus"]["sha256"][:16], 16)
    chosen = sorted(chunks[:-1], key=lambda one: int(mix(SALT, key, one[0].document, one[0].number)))
    chosen = sorted(chosen[:COUNT], key=lambda one: (one[0].document, one[0].number))
    return chosen, every, key


@pytest.fixture(scope="module")
def table(source: Path, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = shutil.copytree(source, tmp_path_factory.mktemp("made") / "s")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("theodolite.state.pilot.MASSIVE", LINE)
        return make_batches(folder, count=COUNT, size=SIZE).tables[BATCHES]


class TestOracle:
    def rows(
        self, windows: list[Kept], layer: int, population: str, source: Path, key: int
    ) -> tuple[np.ndarray[Any, Any], list[int], list[tuple[int, ...]]]:
        """The population's states, their keys and what they saw."""
        lines = [LINE * Pilot.load(source).layers[each].median_norm for each in range(5)]
        x, keys, seen = [], [], []
        for window in windows:
            longer = [np.linalg.norm(window.states[each], axis=1) > lines[each] for each in range(5)]
            sinks = np.any(longer, axis=0)
            for position, state in enumerate(window.states[layer]):
                if population == "without-first" and position == 0:
                    continue
                if population == "without-massive" and longer[layer][position]:
                    continue
                if population == "without-sinks" and sinks[position]:
                    continue
                x.append(state)
                keys.append(int(mix(key, window.document, window.number, position)) >> 1)
                seen.append(window.seen[position])
        return np.array(x), keys, seen

    @pytest.mark.parametrize(
        "population", [slow("all"), slow("without-first"), "without-massive", "without-sinks"]
    )
    def test_contiguous(self, table: pd.DataFrame, kept: Any, source: Path, population: str) -> None:
        chosen, every, key = kept
        assert any(len({one.document for one in chunk}) == 1 < len(chunk) for chunk in chosen) or any(
            window.number for chunk in chosen for window in chunk
        )  # the long document is cut between windows
        for layer in (1, 2, 3, 4):
            rows = table.query(f"layer == {layer} and population == {population!r} and kind == 'contiguous'")
            assert len(rows) == COUNT
            centre = self.rows(every, layer, population, source, key)[0].mean(axis=0)
            tempting = []
            for row, chunk in zip(rows.to_dict("records"), chosen, strict=True):
                x, _, _ = self.rows(chunk, layer, population, source, key)
                assert row["n"] == len(x) >= SIZE
                assert row["first_document"] == chunk[0].document
                assert row["documents"] == len({one.document for one in chunk})
                assert row["anisotropy_svd"] == pytest.approx(svd(x), rel=ROUNDING)
                tempting.append(abs(svd(x, centre) / svd(x) - 1))
            assert max(tempting) > 100 * ROUNDING  # centred at the mean of everything

    @pytest.mark.parametrize("population", POPULATIONS)
    def test_shuffled(self, table: pd.DataFrame, kept: Any, source: Path, population: str) -> None:
        chosen, _, key = kept
        for layer in (1, 4):
            rows = table.query(f"layer == {layer} and population == {population!r} and kind == 'shuffled'")
            x, keys, seen = self.rows([one for chunk in chosen for one in chunk], layer, population, source, key)
            parts = np.array_split(np.argsort(keys), COUNT)
            assert abs(rows["n"].to_numpy() - [len(part) for part in parts]).max() <= 1
            assert rows["n"].sum() == len(x)
            order, start = np.argsort(keys), 0
            for row in rows.to_dict("records"):
                batch_rows = order[start : start + row["n"]]
                start += row["n"]
                assert row["anisotropy_svd"] == pytest.approx(svd(x[batch_rows]), rel=ROUNDING)
                distinct = list({seen[at]: at for at in reversed(batch_rows)}.values())
                assert (row["twonn_n"], row["duplicates"]) == (len(distinct), len(batch_rows) - len(distinct))
                # neighbours of almost equal distance may change places under float32 states
                assert row["twonn"] == pytest.approx(dimension(x[distinct]), rel=1e-3)

    def test_the_summary_is_mean_and_deviation(self, table: pd.DataFrame, source: Path) -> None:
        found = summarise_batches(table, read_survey_data(source, ("layers",)).layers)
        assert len(found) == 5 * 4
        row = found.query("layer == 2 and population == 'without-first'").iloc[0]
        values = table.query("layer == 2 and population == 'without-first' and kind == 'contiguous'")
        assert row["contiguous"] == pytest.approx(values["anisotropy_svd"].mean())
        assert row["contiguous_sd"] == pytest.approx(values["anisotropy_svd"].std(ddof=1))
        assert row["contiguous_batches"] == row["twonn_batches"] == COUNT
        exact = read_survey_data(source, ("layers",)).layers.query("layer == 2 and population == 'without-first'")
        assert row["everything"] == exact["anisotropy_svd"].item()


def test_batches_are_reproducible_and_independent_of_layer_groups(surveyed: Path) -> None:
    first = make_batches(surveyed, count=COUNT, size=SIZE).tables[BATCHES]
    written = (surveyed / TABLE).read_bytes()
    make_batches(surveyed, count=COUNT, size=SIZE)
    assert (surveyed / TABLE).read_bytes() == written
    listener = RecordingListener()
    grouped_ = make_batches(surveyed, count=COUNT, size=SIZE, memory=1, listener=listener).tables[BATCHES]
    pd.testing.assert_frame_equal(first, grouped_)
    assert any("the model runs 5 times, for 1 layers or fewer" in line for line in listener.said)
    some = make_batches(surveyed, count=COUNT, size=SIZE, layers="0,-1", dimension=False).tables[BATCHES]
    assert set(some["layer"]) == {0, 4}
    assert some["twonn"].isna().all()
    assert some["undefined"].str.contains("the dimension was disabled").sum() == 2 * 4 * COUNT
    expected = first.query("layer in (0, 4)")["anisotropy_svd"].to_numpy()
    assert some["anisotropy_svd"].to_numpy() == pytest.approx(expected)


class RecordingListener(Listener):
    def __init__(self, stop_after: float = np.inf) -> None:
        self.said: list[str] = []
        self.warned: list[str] = []
        self._left = stop_after

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warned.append(text)

    def stop(self) -> bool:
        self._left -= 1
        return self._left < 0


@pytest.mark.parametrize("after", [0, 2, 12])
def test_an_interrupted_run_writes_nothing(surveyed: Path, after: int) -> None:
    before = {path.name for path in surveyed.iterdir()}
    with pytest.raises(TheodoliteError, match=r"Interrupted\. No batches were written"):
        make_batches(surveyed, count=COUNT, size=SIZE, listener=RecordingListener(after))
    assert {path.name for path in surveyed.iterdir()} == before


def test_one_batch_of_the_complete_corpus_equals_the_survey(
    small_model: Callable[[str], Path], corpus: Path, tmp_path: Path
) -> None:
    """Encoder-decoders, whose stacks have other positions, and words, which are means of tokens."""
    models = {"T5": saved("T5", tmp_path / "t5"), "llama": small_model("llama")}
    for name, units in (("T5", "id"), ("llama", "word")):
        out = tmp_path / f"{name}-survey"
        package.survey(models[name], corpus, out=out, units=units, sample_size=8)
        survey = read_survey_data(out, ("layers",))
        least = int(survey.layers.query("population == 'without-first'")["n"].min())
        assert (survey.layers["massive"] == 0).all()
        made = make_batches(out, count=1, size=least, dimension=False).tables[BATCHES]
        merged = made.merge(survey.layers, on=["layer", "population"], suffixes=("", "_exact"))
        assert len(merged) == 2 * len(survey.layers)
        assert (merged["n"] == merged["n_exact"]).all()
        assert merged["anisotropy_svd"].to_numpy() == pytest.approx(
            merged["anisotropy_svd_exact"].to_numpy(), rel=ROUNDING
        )


def test_chunks_do_not_span_documents_that_were_not_surveyed(
    small_model: Callable[[str], Path], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("theodolite.surveys.text_survey.SHARD_CHARS", 900)
    package.survey(small_model("bert"), corpus, out=tmp_path / "s", part="1/2", layers=[1], sample_size=8)
    reopened = reopen(read_survey_data(tmp_path / "s", ()).facts, [1])
    found = choose_chunks(reopened, 1000, 60)
    every = [size.window for some in reopened.documents() for size in window_sizes(reopened.source, some)]
    place = {window: at for at, window in enumerate(every)}
    shard = {number: at for at, some in enumerate(reopened.documents()) for number, _ in some}
    assert len(found.chunks) == found.of > 3
    for chunk in found.chunks:
        at = [place[window] for window in chunk.windows]
        assert at == list(range(at[0], at[0] + len(at)))
        assert len({shard[document] for document, _ in chunk.windows}) == 1
    taken = [window for chunk in found.chunks for window in chunk.windows]
    assert len(taken) == len(set(taken))
    few = choose_chunks(reopened, 2, 60)
    assert len(few.chunks) == 2
    assert set(few.chunks) <= set(found.chunks)


class TestRefused:
    def test_too_small_a_corpus(self, surveyed: Path) -> None:
        with pytest.raises(InputError, match=r"has [\d,]+ counted positions; a batch requires at least 4,096"):
            make_batches(surveyed, size=4096)
        assert not (surveyed / TABLE).exists()

    def test_fewer_batches_give_a_warning(self, surveyed: Path) -> None:
        listener = RecordingListener()
        made = make_batches(surveyed, count=500, size=SIZE, layers=[1], dimension=False, listener=listener)
        assert made.facts[BATCHES]["stretches"] == made.facts[BATCHES]["of"] < 500
        (line,) = listener.warned
        assert line == f"the corpus has {made.facts[BATCHES]['of']} batches of at least 150 positions, not 500"

    def test_vectors_and_media(self, tmp_path: Path) -> None:
        np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32))
        package.measure(tmp_path / "v.npy", out=tmp_path / "s")
        with pytest.raises(InputError, match="was measured without a model, so there is no text to read again"):
            make_batches(tmp_path / "s")
        speech = {"model": {"name": "whisper", "modality": "speech"}, "corpus": {"name": "clips"}}
        with pytest.raises(InputError, match="whisper is a speech model, and a second pass reads text only"):
            check_readable(speech)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"count": 0}, r"--count must be at least 1 \(got 0\)"),
            ({"size": 3}, r"--size must be at least 10 positions per batch \(got 3\)"),
            ({"layers": "9"}, "--layers 9: this survey has layers 0 to 4"),
        ],
    )
    def test_arguments(self, surveyed: Path, given: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            make_batches(surveyed, **given)

    def test_another_surveys_file_and_a_damaged_one(
        self, surveyed: Path, small_model: Callable[[str], Path], corpus: Path, tmp_path: Path
    ) -> None:
        facts = read_survey_data(surveyed, ()).facts
        with pytest.raises(
            InputError, match=r"There are no batches in .*; create them with `theodolite batches .*`\."
        ):
            read_batches(surveyed, facts)
        assert BATCHES not in read_survey_data(surveyed, ("layers", BATCHES)).tables
        make_batches(surveyed, count=2, size=SIZE, layers=[1], dimension=False)
        package.survey(small_model("gpt2"), corpus, out=tmp_path / "other", layers=[1], sample_size=8)
        shutil.copy(surveyed / TABLE, tmp_path / "other")
        with pytest.raises(InputError, match="belong to an earlier survey"):
            read_survey_data(tmp_path / "other", ("layers", BATCHES))
        package.survey(
            small_model("gpt2"), corpus, out=tmp_path / "other", layers=[1], sample_size=8, overwrite=True
        )
        assert not (tmp_path / "other" / TABLE).exists()
        whole = bytearray((surveyed / TABLE).read_bytes())
        for at in (10, len(whole) // 2, len(whole) - 30):
            broken = whole.copy()
            broken[at] ^= 0x10
            (surveyed / TABLE).write_bytes(broken)
            try:
                table, _ = read_batches(surveyed, facts)
            except (DamagedError, InputError):
                continue
            (surveyed / TABLE).write_bytes(whole)
            pd.testing.assert_frame_equal(table, read_batches(surveyed, facts)[0])  # a bit that says nothing


class TestMadeUp:
    """Vectors that no small model has."""

    def measured(self, x: np.ndarray[Any, Any], above: float = np.inf, size: int = 50) -> pd.DataFrame:
        n = len(x)
        states = ChunkStates(
            torch.from_numpy(x.astype(np.float32)),
            torch.from_numpy((mix(np.arange(n)) >> np.uint64(1)).astype(np.int64)),
            torch.arange(n),
            torch.arange(n) % 20 == 0,
            torch.arange(n) // (n // 2),
        )
        chunks = [Chunk(0, ((0, 0),), n // 2), Chunk(1, ((1, 0),), n // 2)]
        among = {name: PositionFilter(name, above) for name in ("all", "without-first", "without-massive")}
        return pd.DataFrame(measure_layer_batches(states, chunks, among, BatchOptions(size)))

    def test_a_rogue_coordinate_and_massive_first_positions(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(240, 6))
        x[:, 2] += 3000
        x[::20] *= 150
        table = self.measured(x, above=1e5)
        x = x.astype(np.float32).astype(np.float64)
        for population, some in (("all", slice(None)), ("without-first", np.arange(240) % 20 != 0)):
            rows = table.query(f"population == {population!r} and kind == 'contiguous'")
            for number, row in enumerate(rows.to_dict("records")):
                half = np.arange(240) // 120 == number
                kept = x[half] if population == "all" else x[half & some]
                # the products are float32 sums of some hundred terms
                assert row["anisotropy_svd"] == pytest.approx(svd(kept), rel=1e-4)
        massive = table.query("population == 'without-massive'").drop(columns="population")
        first = table.query("population == 'without-first'").drop(columns="population")
        pd.testing.assert_frame_equal(massive.reset_index(drop=True), first.reset_index(drop=True))

    def test_equal_vectors_and_small_populations_have_reasons(self) -> None:
        table = self.measured(np.ones((120, 3)))
        assert table["anisotropy_svd"].isna().all()
        assert table.query("kind == 'contiguous'")["undefined"].str.contains("equal").all()
        assert (table.query("kind == 'shuffled'")["duplicates"] > 50).all()
        x = np.random.default_rng(1).normal(size=(120, 3))
        x[:30] *= 1e6
        table = self.measured(x, above=1e3).query("population == 'without-massive'")
        assert table["n"].tolist() == [30, 60, 90]  # of the shuffled ones there is but one batch
        assert table["anisotropy_svd"].isna().tolist() == [True, False, False]
        assert "the chunk has 30 positions of this population" in table["undefined"].iloc[0]


def test_groups_of_layers_fit() -> None:
    from theodolite.models.layers import Layer

    layers = [Layer(number, f"block {number}", dim) for number, dim in enumerate((10, 10, 10, 100, 10))]
    sizes_of = [[layer.index for layer in group] for group in group_layers(layers, 5, 400)]
    assert sizes_of == [[0, 1], [2], [3], [4]]
    assert group_layers([], 5, 400) == []
