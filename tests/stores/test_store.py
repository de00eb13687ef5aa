"""theodolite.store from source to folder: planted faults, resuming, and one sentence for bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.shared import slow

import theodolite
from theodolite.engines.progress import Listener
from theodolite.errors import DamagedError, InputError, TheodoliteError
from theodolite.stores import scan as scanning
from theodolite.stores.results import open_results

SMALL = {"sample_size": 600, "query_count": 600, "cost": False}


@pytest.fixture(scope="module")
def planted() -> np.ndarray:
    """150 copies, 20 noisy copies, a zero, a NaN and a long row, a dead and a rogue dimension."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3000, 24)).astype(np.float32)
    vectors[:, 8] += 6
    vectors[2000:2150] = vectors[:150]
    vectors[2200:2220] = vectors[200:220] + 0.01 * rng.normal(size=(20, 24)).astype(np.float32)
    vectors[2700] *= 50
    vectors[:, 3] = 0.25
    vectors[2500], vectors[2600, 1] = 0, np.nan
    return vectors


@pytest.fixture(scope="module")
def made(planted, tmp_path_factory):
    ids = np.array([f"doc-{row}" for row in range(len(planted))])
    folder = tmp_path_factory.mktemp("store") / "out"
    texts = [f"text <b>{row}</b>" for row in range(len(planted))]
    return theodolite.store(planted, id_column=ids, text_column=texts, out=folder, **SMALL)


def answer(made, question: str) -> pd.Series:
    found = made.answers[made.answers["question"].str.startswith(question)]
    assert len(found), question
    return found.iloc[0]


def test_what_was_planted_is_found_with_ids(made):
    duplicates = made.tables["duplicates"]
    assert duplicates["row"].tolist() == list(range(2000, 2150))
    assert duplicates["copy_of_id"].tolist() == [f"doc-{row}" for row in range(150)]
    near = made.tables["near_duplicates"]
    assert set(zip(near["row"], near["nearest"], strict=True)) >= {(200 + k, 2200 + k) for k in range(20)}
    assert (near["nearest_id"] == "doc-" + near["nearest"].astype(str)).all()
    assert set(made.tables["unusable_rows"]["id"]) == {"doc-2500", "doc-2600"}
    assert made.tables["norm_outliers"]["row"].tolist() == [2700]
    assert made.tables["dimensions"]["dead"].to_numpy().nonzero()[0].tolist() == [3]
    assert made.tables["hubs"]["text"].str.startswith("text <b>").all()


def test_every_question_has_a_verdict_a_sentence_and_a_reason(made):
    verdicts = {
        "Are all vectors usable?": "bad",
        "Are there exact duplicates?": "attention",
        "Are there vectors of unusual length?": "attention",
        "Are there dead dimensions?": "attention",
        "Does one dimension dominate?": "attention",
        "Are there near duplicates?": "attention",
        "What do two random vectors score?": "attention",
    }
    for question, verdict in verdicts.items():
        assert answer(made, question)["verdict"] == verdict, question
    assert (made.answers["sentence"].str.len() > 10).all()
    assert (made.answers["reason"].str.len() > 5).all()
    assert answer(made, "Are all vectors usable?")["sentence"] == (
        "2 of 3,000 vectors cannot be used: 1 with NaN or infinity and 1 that is zero."
    )


def test_hubs_and_near_duplicates_are_those_of_plain_search(planted):
    good = planted[np.isfinite(planted).all(1) & (planted != 0).any(1)][:900].astype(np.float64)
    made = theodolite.store(good, sample_size=900, query_count=900, cost=False)
    units = good / np.linalg.norm(good, axis=1, keepdims=True)
    cosines = units @ units.T
    np.fill_diagonal(cosines, -2)
    top = np.argsort(-cosines, axis=1)[:, :10]
    counts = np.bincount(top.flatten(), minlength=900)
    hubs = made.tables["hubs"]
    assert hubs["lists"].tolist() == sorted(counts.tolist(), reverse=True)[: len(hubs)]
    assert made.tables["antihubs"]["row"].tolist() == np.flatnonzero(counts == 0).tolist()
    assert answer(made, "Are there near duplicates?")["value"] == pytest.approx((cosines.max(1) >= 0.98).mean())


def test_the_folder_is_opened_again(made):
    again = open_results(made.folder)
    pd.testing.assert_frame_equal(again.answers, made.answers)
    for name, table in made.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table, check_dtype=False)
    facts = json.loads((made.folder / "store.json").read_text())
    assert facts["store"]["rows"] == 3000
    assert facts["settings"]["metric"] == "cosine"
    assert "NaN" not in (made.folder / "store.json").read_text().replace("with NaN", "")
    assert not list(made.folder.glob("checkpoint*"))


def test_copies_are_counted_in_the_sentence():
    rows = np.random.default_rng(0).normal(size=(30, 4))
    one = theodolite.store(np.concatenate([rows, rows[:1], rows[:1]]), cost=False)
    assert answer(one, "Are there exact duplicates?")["sentence"].endswith("exactly: 1 vector occurs 3 times.")
    two = theodolite.store(np.concatenate([rows, rows[:2], rows[:1]]), cost=False)
    sentence = answer(two, "Are there exact duplicates?")["sentence"]
    assert sentence.endswith("exactly: 2 vectors occur more than once, at most 3 times.")


def test_printed_results_are_one_line_per_answer(made):
    head, *lines = repr(made).splitlines()
    assert re.fullmatch(r"StoreResults\('.*': [\d,]+ rows, \d+ coordinates\)", head)
    assert [line.split()[0] for line in lines] == made.answers["verdict"].tolist()


def test_a_damaged_table_is_reported(planted, tmp_path):
    theodolite.store(planted[:300], out=tmp_path / "out", **SMALL)
    (tmp_path / "out" / "hubs.parquet").write_bytes(b"damaged")
    with pytest.raises(DamagedError, match=r"hubs.parquet is damaged"):
        open_results(tmp_path / "out")


def test_the_page_escapes_texts_and_names_every_question(made):
    page = (made.folder / "report.html").read_text("utf-8")
    assert "text &lt;b&gt;" in page
    assert "<b>2" not in page
    for question in made.answers["question"]:
        assert question in page


def test_real_queries_are_searched_and_scored(planted, tmp_path):
    np.save(tmp_path / "queries.npy", planted[300:400] * 2)
    made = theodolite.store(planted[:2000], queries=str(tmp_path / "queries.npy"), **SMALL)
    assert made["hubs"].facts["queries_are"] == "queries"
    assert made["hubs"].facts["queries"] == 100
    kinds = made.tables["thresholds"]["pairs"].unique().tolist()
    assert kinds == ["document-document", "query-document"]
    units = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (planted[:2000], planted[300:400])]
    truth = (units[1].astype(np.float64) @ units[0].T).mean()
    assert made["floor"].facts["pairs"]["query-document"]["mean_cosine"] == pytest.approx(truth, rel=1e-6)
    assert answer(made, "Does every query find something?")["value"] == 0.0


@pytest.mark.parametrize("metric", ["dot", "euclidean"])
def test_other_metrics_rank_by_their_own_scores(planted, metric):
    good = planted[:800]
    made = theodolite.store(good, metric=metric, sample_size=800, query_count=800, cost=False)
    wide = good.astype(np.float64)
    scores = wide @ wide.T if metric == "dot" else -np.linalg.norm(wide[:, None] - wide[None], axis=2)
    np.fill_diagonal(scores, -np.inf)
    counts = np.bincount(np.argsort(-scores, axis=1)[:, :10].flatten(), minlength=800)
    assert made.tables["hubs"]["lists"].iloc[0] == counts.max()
    threshold = made["floor"].facts["pairs"]["document-document"]["threshold"]
    pairs = scores[np.triu_indices(800, 1)]
    found = (pairs > threshold if metric == "dot" else -pairs < threshold).mean()
    assert found == pytest.approx(0.001, rel=0.02)


class StopAt(Listener):
    """Asks to stop the n-th time it is asked."""

    def __init__(self, n: int) -> None:
        self.left = n

    def stop(self) -> bool:
        self.left -= 1
        return self.left < 0

    def warn(self, text: str) -> None:
        """Ignore the notes on NaN rows."""


class CountBlocks(StopAt):
    """Counts the blocks of passes over the store, and never asks to stop."""

    def __init__(self) -> None:
        super().__init__(999)
        self.blocks = 0

    def stop(self) -> bool:
        self.blocks += 1
        return False


@pytest.mark.parametrize("blocks", [1, slow(2), 4])
def test_an_interrupted_run_resumes_with_the_same_tables(planted, tmp_path, blocks):
    np.save(tmp_path / "store.npy", np.concatenate([planted] * 7)[:20_000])
    source, options = tmp_path / "store.npy", {"sample_size": 300, "query_count": 300, "cost": False}
    whole = theodolite.store(source, listener=StopAt(99), **options)
    with pytest.raises(TheodoliteError, match=r"Stopped .*Continue with --resume."):
        theodolite.store(source, out=tmp_path / "out", listener=StopAt(blocks), **options)
    with pytest.raises(InputError, match="contains an unfinished run; give --resume"):
        theodolite.store(source, out=tmp_path / "out", **options)
    with pytest.raises(InputError, match="the interrupted run had other settings"):
        theodolite.store(source, out=tmp_path / "out", resume=True, sample_size=300, query_count=200)
    resumed = theodolite.store(source, out=tmp_path / "out", resume=True, listener=StopAt(99), **options)
    for name, table in whole.tables.items():
        pd.testing.assert_frame_equal(resumed.tables[name], table)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [7, 8])
def test_a_run_that_stopped_after_transforms_resumes_with_the_same_tables(planted, tmp_path, blocks):
    pytest.importorskip("faiss")
    np.save(tmp_path / "store.npy", np.concatenate([planted] * 7)[:20_000])
    source = tmp_path / "store.npy"
    names = ["centre+pca:8", "int8", "pq:4", "binary+rescore:4"]
    options = {"sample_size": 1200, "query_count": 300, "transforms": names}
    whole = theodolite.store(source, listener=StopAt(99), **options)
    with pytest.raises(TheodoliteError, match=r"Stopped while searching after transforms, after .*--resume."):
        theodolite.store(source, out=tmp_path / "out", listener=StopAt(blocks), **options)
    assert (tmp_path / "out" / "checkpoint-cost.safetensors").is_file()
    read = CountBlocks()
    resumed = theodolite.store(source, out=tmp_path / "out", resume=True, listener=read, **options)
    assert read.blocks == 9 - blocks - 1  # only what was left of the three blocks of the third pass
    for name, table in whole.tables.items():
        hidden = [column for column in table if column == "query_ms"]  # a time
        pd.testing.assert_frame_equal(resumed.tables[name].drop(columns=hidden), table.drop(columns=hidden))


def test_other_transforms_after_an_interruption_are_searched_from_the_first_row(planted, tmp_path):
    np.save(tmp_path / "store.npy", np.concatenate([planted] * 7)[:20_000])
    source, options = tmp_path / "store.npy", {"sample_size": 1200, "query_count": 300}
    with pytest.raises(TheodoliteError, match="Stopped"):
        theodolite.store(source, out=tmp_path / "out", listener=StopAt(7), transforms=["pca:8"], **options)
    whole = theodolite.store(source, listener=StopAt(99), transforms=["pca:9"], **options)
    read = CountBlocks()
    again = theodolite.store(
        source, out=tmp_path / "out", resume=True, listener=read, transforms=["pca:9"], **options
    )
    assert read.blocks == 3
    assert again.tables["cost"]["recall_10"].tolist() == whole.tables["cost"]["recall_10"].tolist()


def test_a_store_that_changed_since_the_interruption_is_rejected(planted, tmp_path):
    np.save(tmp_path / "store.npy", planted)
    with pytest.raises(TheodoliteError, match="Stopped"):
        theodolite.store(tmp_path / "store.npy", out=tmp_path / "out", listener=StopAt(0), **SMALL)
    np.save(tmp_path / "store.npy", planted[::-1])
    with pytest.raises(InputError, match=r"have changed since the interrupted run. Start again with --overwrite."):
        theodolite.store(tmp_path / "store.npy", out=tmp_path / "out", resume=True, **SMALL)


def test_another_store_is_compared(planted, tmp_path):
    shifted = planted[:1000] + np.float32(0.7)
    made = theodolite.store(shifted, against=planted[1000:1900], **SMALL)
    assert made["against"].answers[0].verdict != "good"
    with pytest.raises(InputError, match="--groups requires --against"):
        theodolite.store(shifted, groups="label")
    with pytest.raises(InputError, match="--groups 'label' is not read from"):
        theodolite.store(shifted, against=shifted, groups="label")


def test_one_vector():
    made = theodolite.store(np.ones((1, 4)), cost=False)
    assert answer(made, "Are all vectors usable?")["verdict"] == "good"
    floor = answer(made, "What do two random vectors score?")
    assert floor["verdict"] == "unknown"
    assert floor["sentence"] == "It requires two usable vectors (the store has 1)."


def test_equal_vectors():
    made = theodolite.store(np.ones((50, 4), np.float32), cost=False)
    assert answer(made, "Are there exact duplicates?")["value"] == pytest.approx(49 / 50)
    assert answer(made, "Are there exact duplicates?")["verdict"] == "bad"
    assert answer(made, "What do two random vectors score?")["value"] == pytest.approx(1.0)
    assert answer(made, "Does one dimension dominate?")["verdict"] == "unknown"
    assert answer(made, "How many dimensions")["verdict"] == "unknown"
    assert answer(made, "Are there dead dimensions?")["verdict"] == "bad"


def test_vectors_that_are_all_unusable():
    vectors = np.zeros((20, 4), np.float32)
    vectors[:5] = np.nan
    with pytest.warns(UserWarning, match="have no vector or only NaN"):
        made = theodolite.store(vectors)
    assert answer(made, "Are all vectors usable?")["value"] == 1.0
    assert answer(made, "Are there exact duplicates?")["verdict"] == "unknown"


def test_a_store_that_grows_while_it_is_read_is_reported(planted, tmp_path, monkeypatch):
    np.save(tmp_path / "store.npy", planted)
    from theodolite.stores.reading import StoreReader

    plain = StoreReader.blocks
    calls = []

    def blocks(self, start=0, **options):
        calls.append(start)
        for block in plain(self, start, **options):
            yield block
            if len(calls) == 2:  # the second pass loses the rest
                return

    monkeypatch.setattr(StoreReader, "blocks", blocks)
    monkeypatch.setattr(scanning, "CHECKPOINT_SECONDS", 1e9)
    large = np.concatenate([planted] * 4)
    with pytest.raises(TheodoliteError, match=r"has changed while it was read: it had 12,000 rows, then 8,192"):
        theodolite.store(large, **SMALL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "manhattan"}, r"--metric must be one of cosine, dot, euclidean \(got 'manhattan'\)."),
        ({"false_match_rate": 0}, r"--false-match-rate must be between 0 and 1 \(got 0\)."),
        ({"near_duplicate": 1.5}, r"--near-duplicate must be a cosine between 0 and 1 \(got 1.5\)."),
        ({"sample_size": 1}, r"--sample-size must be at least 2 \(got 1\)."),
        ({"query_count": 9000}, r"--query-count 9,000 must not exceed --sample-size 8,192."),
        ({"device": "cudda"}, r"--device 'cudda' is not a device. Use one such as cpu, cuda or cuda:1."),
        ({"device": "cuda:99"}, r"--device 'cuda:99' is not available on this machine. Try --device cpu."),
        ({"resume": True}, r"--resume requires --out, the folder of the interrupted run."),
        ({"queries": np.ones((3, 5))}, r"--queries have 5 coordinates, the vectors of the store 4."),
        ({"queries": np.zeros((3, 4))}, r"has no usable vector."),
    ],
)
def test_wrong_options_get_one_sentence(options, message):
    with pytest.raises(InputError, match=message):
        theodolite.store(np.random.default_rng(0).normal(size=(30, 4)), **options)


def test_an_empty_store_and_other_folders_are_rejected(planted, tmp_path):
    np.save(tmp_path / "empty.npy", np.empty((0, 4)))
    with pytest.raises(InputError, match="holds no vectors"):
        theodolite.store(tmp_path / "empty.npy")
    theodolite.measure(planted[:20]).save(tmp_path / "survey")
    with pytest.raises(InputError, match="the folder holds a survey, not vectors; `theodolite show` prints it"):
        theodolite.store(tmp_path / "survey")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(
        InputError, match=r"not results of `theodolite store` \(notes.txt\), which are never overwritten"
    ):
        theodolite.store(planted, out=tmp_path / "other", overwrite=True)
    assert (tmp_path / "other" / "notes.txt").read_text() == "mine"
    theodolite.store(planted[:300], out=tmp_path / "out", **SMALL)
    with pytest.raises(InputError, match="already contains results; give --overwrite"):
        theodolite.store(planted[:300], out=tmp_path / "out", **SMALL)
    theodolite.store(planted[:200], out=tmp_path / "out", overwrite=True, **SMALL)
    assert open_results(tmp_path / "out").facts["store"]["rows"] == 200
    assert isinstance(open_results(tmp_path / "out").folder, Path)


def test_exact_copies_are_no_false_matches():
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(1500, 12)).astype(np.float32)
    copied = np.concatenate([vectors, np.repeat(vectors[:1], 200, axis=0)])  # 1.4% of all pairs are equal
    options = {"sample_size": 2000, "query_count": 100, "false_match_rate": 0.005, "cost": False}
    plain, found = (
        theodolite.store(each, **options)["floor"].facts["pairs"]["document-document"]["threshold"]
        for each in (vectors, copied)
    )
    assert found == pytest.approx(plain, abs=1e-4)
    assert found < 0.9


def test_transforms_are_measured_in_the_same_results(planted, tmp_path):
    options = {"sample_size": 600, "query_count": 600}
    made = theodolite.store(planted[:500], transforms=["pca:8", "truncate:12"], out=tmp_path / "out", **options)
    assert made.tables["cost"]["transform"].tolist()[1:] == ["pca:8", "truncate:12"]
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "How small can the vectors be?" in page
    assert "Recall after a transform" in page
    with pytest.raises(InputError, match="pcb"):
        theodolite.store(planted[:500], transforms=["pcb:8"])
