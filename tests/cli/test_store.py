"""theodolite store: the answers in the terminal and as JSON, the folder, and wrong input."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

VECTORS = np.random.default_rng(0).normal(size=(400, 8)).astype(np.float32)
VECTORS[300:340] = VECTORS[:40]


def test_a_store_gets_answers_tables_and_a_page(theodolite, tmp_path):
    table = pd.DataFrame({"id": [f"d{row}" for row in range(400)], "vector": list(VECTORS)})
    table.to_parquet(tmp_path / "store.parquet")
    ran = theodolite("store", tmp_path / "store.parquet", "--out", tmp_path / "out", "--no-cost")
    assert ran.code == 0, ran.err
    assert "40 vectors (10%) repeat another one exactly" in ran.out
    assert f"report: {tmp_path / 'out' / 'report.html'}" in ran.out
    assert (tmp_path / "out" / "report.html").stat().st_size < 100_000
    found = pd.read_parquet(tmp_path / "out" / "duplicates.parquet")
    assert found["id"].tolist() == [f"d{row}" for row in range(300, 340)]


def test_json_has_every_answer_with_null_for_what_is_exact(theodolite, tmp_path):
    np.save(tmp_path / "store.npy", VECTORS)
    ran = theodolite("store", tmp_path / "store.npy", "--json", "--quiet", "--no-cost")
    assert ran.code == 0, ran.err
    answers = json.loads(ran.out)["answers"]
    copies = next(one for one in answers if one["question"] == "Are there exact duplicates?")
    assert copies["value"] == 0.1
    assert copies["low"] is None
    alone = next(one for one in answers if one["question"] == "Does every document have a neighbour?")
    assert alone["low"] is None  # all documents were searched


@pytest.mark.skipif(sys.platform == "win32", reason="requires SIGKILL")
@pytest.mark.slow
@pytest.mark.parametrize("part", ["scan", "search", "cost"])
def test_a_killed_run_resumes_with_the_same_results(theodolite, tmp_path, part):
    np.save(tmp_path / "store.npy", np.random.default_rng(1).normal(size=(30_000, 16)).astype(np.float32))
    options = ["store.npy", "--transform", "pca:8", "--transform", "binary", "--query-count", "500"]
    killed = (  # every block is saved, and SIGKILL comes right after the first checkpoint of the part
        "import os, signal, sys\n"
        "from theodolite.stores import scan, store\n"
        "scan.CHECKPOINT_SECONDS = 0.0\n"
        "save = store.StoreRun._save\n"
        "def save_and_die(self, name, state):\n"
        "    save(self, name, state)\n"
        f"    if {part!r} in name: os.kill(os.getpid(), signal.SIGKILL)\n"
        "store.StoreRun._save = save_and_die\n"
        "from theodolite.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", killed, "store", *options, "--out", "out", "--quiet"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "out" / f"checkpoint-{part}.safetensors").is_file()
    options[0] = str(tmp_path / "store.npy")
    resumed = theodolite("store", *options, "--out", tmp_path / "out", "--resume", "--quiet")
    assert resumed.code == 0, resumed.err
    whole = theodolite("store", *options, "--out", tmp_path / "whole", "--quiet")
    assert whole.code == 0, whole.err
    assert resumed.out.splitlines()[:-2] == whole.out.splitlines()[:-2]  # the last lines are paths
    tables = sorted(path.name for path in (tmp_path / "whole").glob("*.parquet"))
    for name in tables:
        found, expected = (pd.read_parquet(tmp_path / folder / name) for folder in ("out", "whole"))
        pd.testing.assert_frame_equal(
            *(each.drop(columns="query_ms", errors="ignore") for each in (found, expected))
        )
    assert len(tables) > 5


def test_parts_are_merged(theodolite, tmp_path):
    for name, part in (("a", VECTORS[:250]), ("b", VECTORS[250:])):
        np.save(tmp_path / f"{name}.npy", part)
        assert theodolite("store", tmp_path / f"{name}.npy", "--out", tmp_path / name, "--no-cost").code == 0
    ran = theodolite("merge", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "whole")
    assert ran.code == 0, ran.err
    assert "40 vectors (10%) repeat another one exactly" in ran.out
    assert f"report: {tmp_path / 'whole' / 'report.html'}" in ran.out
    assert (tmp_path / "whole" / "report.html").is_file()
    again = theodolite("merge", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "whole")
    assert again.code == 2
    assert "already contains results; give --overwrite" in again.err
    mixed = theodolite("merge", tmp_path / "a", tmp_path, "--out", tmp_path / "other")
    assert mixed.err.endswith("does not contain results of `theodolite store`: store.json is missing.\n")


def test_wrong_input_names_the_flag(theodolite, tmp_path):
    np.save(tmp_path / "store.npy", VECTORS)
    ran = theodolite("store", tmp_path / "store.npy", "--false-match-rate", "2")
    assert ran.code == 2
    assert ran.err == "theodolite: --false-match-rate must be between 0 and 1 (got 2.0).\n"
    ran = theodolite("store", tmp_path / "missing.npy")
    assert ran.code == 2
    assert "missing.npy" in ran.err
    for option in ("--queries", "--against"):
        ran = theodolite("store", tmp_path / "store.npy", option, tmp_path / "missing.npy")
        assert ran.err == f"theodolite: {option} {str(tmp_path / 'missing.npy')!r}: there is no such file.\n"
    ran = theodolite("store", tmp_path / "store.npy", "--metric", "l2")
    assert "L2 is euclidean" in ran.err
    (tmp_path / "text.npy").write_text("text")
    ran = theodolite("store", tmp_path / "text.npy")
    assert "expected numbers as numpy.save or numpy.savez writes them" in ran.err


def test_a_transform_is_applied_and_treats_queries_alike(theodolite, tmp_path):
    from theodolite.stores.apply import load_transform

    np.save(tmp_path / "store.npy", VECTORS)
    ran = theodolite(
        "store", tmp_path / "store.npy", "--apply", "truncate:4", "--out", tmp_path / "small", "--quiet"
    )
    assert ran.code == 0, ran.err
    assert "vectors.npy (16 bytes each)" in ran.out
    made = np.load(tmp_path / "small" / "vectors.npy")
    assert made.shape == (400, 4)
    queries = np.asarray(load_transform(tmp_path / "small").queries(VECTORS[:3]))
    cosines = (made[:3] * queries).sum(1) / np.linalg.norm(made[:3], axis=1) / np.linalg.norm(queries, axis=1)
    np.testing.assert_allclose(cosines, 1, atol=1e-5)
    ran = theodolite("store", tmp_path / "store.npy", "--apply", "truncate:4")
    assert ran.err == "theodolite: --apply requires --out, the folder for the transformed vectors.\n"
