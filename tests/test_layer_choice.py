"""The study of layer scores: its targets and correlations against plain definitions, and its readers."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import labelled_text
from benchmarks.layer_choice import (
    EXPECTED,
    correlate,
    draw,
    format_markdown,
    hit_neighbours,
    hit_translations,
    permutation_p,
    spearman,
)
from scipy import stats


def test_an_article_is_found_in_the_other_languages() -> None:
    random = np.random.default_rng(0)
    meaning, language = random.normal(size=(12, 30)), 3 * random.normal(size=(4, 1, 30))
    x = np.concatenate(list(meaning + language + 0.1 * random.normal(size=(4, 12, 30))))
    assert hit_translations(x, 4, centre=True).tolist() == [1.0] * 12
    plain = hit_translations(x, 4)
    assert plain.shape == (12,)
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    naive = []
    for article in range(12):
        found = 0
        for a, b in pairs:
            one, others = x[12 * a + article], x[12 * b : 12 * b + 12]
            cosines = [one @ y / np.linalg.norm(one) / np.linalg.norm(y) for y in others]
            found += int(np.argmax(cosines)) == article
        naive.append(found / len(pairs))
    assert plain.tolist() == pytest.approx(naive)


def test_a_text_is_not_its_own_neighbour() -> None:
    x = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9], [1.0, 0.05]])
    assert hit_neighbours(x, np.array(["a", "a", "b", "b", "b"])).tolist() == [0, 0, 1, 1, 0]


def test_the_rank_correlation_is_that_of_scipy() -> None:
    random = np.random.default_rng(0)
    scores, values = random.integers(4, size=9).astype(float), random.normal(size=(5, 9))
    expected = [stats.spearmanr(scores, row).statistic for row in values]
    assert spearman(scores, values).tolist() == pytest.approx(expected)
    assert np.isnan(spearman(scores, np.ones(9))[0])


def test_few_layers_have_an_exact_p() -> None:
    assert permutation_p(np.arange(5.0), np.arange(5.0)) == pytest.approx(2 / 120)
    many = permutation_p(np.arange(12.0), np.random.default_rng(3).normal(size=12))
    assert many > 0.05


def table_of(scores: dict[str, list[float]]) -> pd.DataFrame:
    layers = len(next(iter(scores.values())))
    unknown = {name: [float("nan")] * layers for name in EXPECTED}
    return pd.DataFrame({"layer": range(layers), **unknown, **scores})


def test_the_cost_of_a_choice_is_what_the_best_layer_has_more() -> None:
    hits = np.array([[0, 0, 0, 1], [1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=float)  # best: layer 1
    rows = correlate(table_of({"rankme": [1, 4, 3, 2], "curvature": [1, 2, 3, 4]}), hits)
    by_score = {row["score"]: row for row in rows}
    assert by_score["rankme"]["chosen"] == 1
    assert by_score["rankme"]["lost"] == 0
    assert by_score["curvature"]["chosen"] == 0  # the least curved
    assert by_score["curvature"]["lost"] == pytest.approx(0.5)
    assert by_score["rankme"]["low"] <= by_score["rankme"]["rho"] <= by_score["rankme"]["high"]
    assert "rho" not in by_score["lidar"]


def test_the_figure_and_the_table_show_every_score(tmp_path: Path) -> None:
    head = {"model": "m", "task": "t", "target": "topic"}
    hits = np.random.default_rng(0).integers(2, size=(4, 30)).astype(float)
    scores = table_of({"rankme": [1, 4, 3, 2]})
    found = pd.DataFrame([head | row for row in correlate(scores, hits)])
    layers = scores.assign(**head, accuracy=hits.mean(axis=1))
    draw({"layers": layers, "correlations": found}, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    text = format_markdown(found)
    assert text.count("\n|") == 2 + len(EXPECTED)
    assert "| lidar | – |" in text


def pack(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


def test_archives_are_read_as_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"text": f"{code} {article}\nTwo", "code": code, "article": article} for code in "ab" for article in (0, 1)
    ]
    (tmp_path / "udhr").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    ratings = "1\t2.5\tgood &lt;3\n2\t-1.5\tbad\n3\t0.2\tso so\n"
    inner = {f"hutto_ICWSM_2014/{name}_GroundTruth.txt": ratings.encode() for name in labelled_text.SOURCES}
    nested = {"vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz": pack(inner)}
    (tmp_path / "vaderSentiment-3.3.2.tar.gz").write_bytes(pack(nested))
    wheel = "chatterbot_corpus-1.3.3-py2.py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / wheel, "w") as archive:
        lines = "".join(f"- - Question {number}?\n  - Answer.\n" for number in range(30))
        archive.writestr("chatterbot_corpus/data/english/ai.yml", f"conversations:\n{lines}")
        archive.writestr("chatterbot_corpus/data/english/food.yml", "conversations:\n- - Only one?\n")
    monkeypatch.setattr(labelled_text, "_fetch", lambda name: tmp_path / name)
    monkeypatch.setattr(labelled_text, "corpus_file", lambda name: tmp_path / name)
    assert labelled_text.read_translations(["b"]) == {"b": ["b 1 Two"]}
    snippets = labelled_text.read_snippets(each=1)
    assert snippets.texts[:2] == ("good <3", "bad")
    assert snippets.labels["sentiment"] == ("positive", "negative") * 4
    topics = labelled_text.read_topics(most=7)
    assert set(topics.labels["topic"]) == {"ai"}
    assert len(set(topics.texts)) == 7


def test_another_file_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelled_text, "cache_root", lambda: tmp_path)
    (tmp_path / "labelled").mkdir()
    (tmp_path / "labelled" / "vaderSentiment-3.3.2.tar.gz").write_bytes(b"another file")
    with pytest.raises(ValueError, match="expected sha256 5d7c06e0"):
        labelled_text.read_snippets()
