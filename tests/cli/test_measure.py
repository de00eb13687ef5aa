"""theodolite measure: vectors from each kind of file give the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(600, 12)).astype(np.float32) + np.float32(0.5)
LABELS = np.array(["a", "b", "c"])[np.arange(600) % 3]


def written(folder: Path) -> dict[str, Path]:
    paths = {ending: folder / f"vectors{ending}" for ending in (".npy", ".npz", ".safetensors", ".parquet")}
    np.save(paths[".npy"], VECTORS)
    np.savez(paths[".npz"], vectors=VECTORS, label=LABELS)
    tensors = {"vectors": torch.from_numpy(VECTORS), "label": torch.arange(600) % 3}
    save_file(tensors, paths[".safetensors"])
    pd.DataFrame({"vectors": list(VECTORS), "label": LABELS}).to_parquet(paths[".parquet"])
    return paths


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".parquet"])
def test_every_format_gives_the_same_numbers(theodolite, tmp_path, ending):
    ran = theodolite("measure", written(tmp_path)[ending], "--json")
    assert ran.code == 0, ran.err
    row = json.loads(ran.out)["layers"][0]
    exact = VECTORS.astype(np.float64)
    assert row["n"] == 600
    assert row["q"] == pytest.approx(np.square(exact).sum(1).mean(), rel=1e-9)
    assert row["m"] == pytest.approx(np.square(exact.mean(0)).sum(), rel=1e-9)
    unit = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    cosines = unit @ unit.T
    mean = (cosines.sum() - 600) / (600 * 599)
    assert row["mean_cosine"] == pytest.approx(mean, abs=1e-6)
    assert row["v_within"] is None
    assert row["undefined"]["v_within"] == "the vectors belong to no units"


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".parquet"])
def test_groups_split_the_variance(theodolite, tmp_path, ending):
    ran = theodolite("measure", written(tmp_path)[ending], "--groups", "label", "--json", "--out", tmp_path / "s")
    assert ran.code == 0, ran.err
    row = json.loads(ran.out)["layers"][0]
    exact = VECTORS.astype(np.float64)
    within = np.mean([exact[name == LABELS].var(0).sum() for name in "abc"])
    assert row["types"] == 3
    assert row["v_within"] == pytest.approx(within, rel=1e-9)
    assert row["v_within"] + row["v_between"] == pytest.approx(row["v"], rel=1e-12)
    assert (tmp_path / "s" / "report.html").is_file()


@pytest.mark.parametrize("name", ["labels.npy", "labels.txt"])
def test_labels_of_an_npy_are_in_a_second_file(theodolite, tmp_path, name):
    files = written(tmp_path)
    np.save(tmp_path / "labels.npy", LABELS)
    (tmp_path / "labels.txt").write_text("\n".join(LABELS) + "\n", "utf-8")
    ran = theodolite("measure", files[".npy"], "--groups", tmp_path / name, "--json", "--out", tmp_path / "s")
    assert ran.code == 0, ran.err
    beside = json.loads(theodolite("measure", files[".npz"], "--groups", "label", "--json").out)
    for column in ("v_within", "v_between", "types"):
        assert json.loads(ran.out)["layers"][0][column] == pytest.approx(beside["layers"][0][column], rel=1e-12)
    np.save(tmp_path / "labels.npy", LABELS[::-1])
    (tmp_path / "labels.txt").write_text("\n".join(LABELS[::-1]) + "\n", "utf-8")
    other = theodolite("measure", files[".npy"], "--groups", tmp_path / name, "--out", tmp_path / "s", "--resume")
    assert other.code == 2  # other labels are another survey
    assert "other settings" in other.err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("label", "holds one array and no columns; give a file of labels, .npy or .txt"),
        ("nowhere.txt", "nowhere.txt': there is no such file"),
        ("objects.npy", "cannot be read: expected numbers or strings as numpy.save writes them"),
        ("latin.txt", "a .txt in UTF-8 with one value per line"),
        ("few.txt", "--groups has 2 labels for 600 vectors"),
        ("vectors.npy", "expected one label per vector, got an array of shape (600, 12)"),
    ],
)
def test_invalid_labels_are_rejected(theodolite, tmp_path, monkeypatch, name, words):
    written(tmp_path)
    np.save(tmp_path / "objects.npy", np.array(["a", None], dtype=object))
    (tmp_path / "latin.txt").write_bytes(b"\xff\n" * 600)
    (tmp_path / "few.txt").write_text("a\r\nb\r\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    ran = theodolite("measure", "vectors.npy", "--groups", name)
    assert ran.code == 2
    assert words in ran.err


def test_a_folder_is_not_a_file_of_vectors(theodolite, tmp_path):
    ran = theodolite("measure", tmp_path)
    assert ran.code == 2
    assert f"FILE '{tmp_path}' is a folder; give a file in it: .npy, .npz" in ran.err


def test_float64_vectors_keep_their_precision(theodolite, tmp_path):
    """An offset of 1e8 leaves float32 no digit of a spread of 1; the input must not be changed either."""
    vectors = RNG.normal(size=(500, 3)) + 1e8
    np.save(tmp_path / "x.npy", vectors)
    row = json.loads(theodolite("measure", tmp_path / "x.npy", "--json").out)["layers"][0]
    assert row["v"] == pytest.approx(vectors.var(0).sum(), rel=1e-6)
    assert row["participation_ratio"] == pytest.approx(2.98, abs=0.1)


def test_layers_of_one_file_are_measured_side_by_side(theodolite, tmp_path):
    np.savez(tmp_path / "x.npz", first=VECTORS, second=2 * VECTORS)
    rows = json.loads(theodolite("measure", tmp_path / "x.npz", "--json").out)["layers"]
    named = {row["layer_name"]: row["q"] for row in rows}
    assert named["second"] == pytest.approx(4 * named["first"], rel=1e-12)
