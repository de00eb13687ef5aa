"""Every benchmark runs at its quick size and gives finite ratios. No time is asserted: machines are shared."""

from __future__ import annotations

import json
import math
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from benchmarks import __main__ as command
from benchmarks import iso_score, mean_cosine, peers, survey_gpu, training_batches
from benchmarks.results import Row, format_table
from benchmarks.timing import ratio, time_alternately

QUICK = ("iso_score", "mean_cosine", "twonn")  # whose answers are compared too


@cache
def run(name: str) -> dict[str, Any]:
    """Run a part once in a process."""
    found: dict[str, Any] = import_module(f"benchmarks.{name}").run(quick=True)
    return found


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in command.PARTS]
)
def test_every_part_gives_finite_ratios(name: str) -> None:
    if name == "memory" and not sys.platform.startswith("linux"):
        pytest.skip("peak memory is read from /proc")
    found = run(name)
    assert found["rows"]
    for row in found["rows"]:
        assert math.isfinite(row["ratio"]), row
        assert row["what"]
        assert row["ours"]
    json.dumps(found, allow_nan=False)  # null is what JSON has for undefined


def test_timed_methods_give_equal_results() -> None:
    """A ratio of times says nothing unless both sides compute the same number."""
    # Float32 products within a batch: 1e-6 of a score between 0 and 1.
    assert run("iso_score")["ours_off_by"] < 1e-6
    # Float32 unit vectors: 1e-7 each, and far less in the mean.
    off = run("mean_cosine")["off_by"]
    assert abs(off["exact"]) < 1e-7
    assert abs(off["every pair"]) < 1e-7
    assert abs(off["1,000 pairs"]) > 1e-5  # the error of sampling
    answers = run("twonn")["estimates_of_dimension_10"]["plain"]
    assert math.isclose(answers["theodolite"], answers["definition"], rel_tol=1e-6)


def test_a_part_that_cannot_run_is_reported_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(quick: bool) -> None:
        raise peers.MissingError("no package index")

    measured = run("mean_cosine")
    monkeypatch.setattr(iso_score, "run", fails)
    monkeypatch.setattr(mean_cosine, "run", lambda quick: measured)
    out = tmp_path / "bench.json"
    monkeypatch.setattr(sys, "argv", ["bench", "--quick", "--only", "iso_score", "mean_cosine", "--out", str(out)])
    command.main()
    printed = capsys.readouterr().out
    assert "MissingError: no package index" in printed
    written = json.loads(out.read_text())
    assert written["parts"]["iso_score"]["rows"][0]["ratio"] is None
    assert all(row["ratio"] for row in written["parts"]["mean_cosine"]["rows"])
    assert {"cores", "cpu", "torch"} <= written["machine"].keys()
    assert written["date"]


@pytest.mark.slow
def test_the_gpu_survey_runs_on_the_cpu_and_is_accurate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It uses private functions of the package, which may change. On the CPU only its errors have a meaning."""
    out = tmp_path / "gpu.json"
    size = "--scale 0.0003 --layers 1 --dim 64 --batch-tokens 1024 --device cpu".split()
    ran = "machine,limits,accuracy,apart,survey,padded,text,profile"
    monkeypatch.setattr(survey_gpu, "profile_gpu", lambda run: run() or {})  # there is no GPU to trace
    monkeypatch.setattr(sys, "argv", ["survey_gpu", *size, "--parts", ran, "--out", str(out)])
    survey_gpu.main()
    found = json.loads(out.read_text())["shapes"]["bert-base"]
    for part in ran.split(","):
        assert "failed" not in found[part], found[part]
    for name, errors in found["accuracy"].items():
        if name.startswith("plain"):
            assert errors["worst_share_of_the_rule"] < 1
            assert errors["effective_rank"] < 1e-5
        elif name.startswith("uncentred"):
            assert errors["worst_share_of_the_rule"] > 1
    assert found["survey"]["end_to_end"]
    assert found["survey"]["least_ratio"] > 1
    assert found["survey"]["tokens"] == found["survey"]["padded_tokens"]
    assert max(found["padded"]["states_off_by"]) < 2e-2  # of bfloat16 states, each rounded to 4e-3


def test_methods_alternate_in_order() -> None:
    order: list[str] = []
    ways = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    spent = time_alternately(ways, 2, warm=False)
    assert order == ["a", "b", "b", "a"]
    assert {name: len(taken) for name, taken in spent.items()} == {"a": 2, "b": 2}
    assert ratio([1.0, 2.0, 100.0], [1.0, 1.0, 1.0]) == 2.0  # the disturbed round does not count


def test_the_table_has_a_dash_for_a_missing_ratio() -> None:
    rows = [Row("one", 0.5, 1.0, "1 s", "2 s"), Row("two", float("nan"), why="no network")]
    head, one, two = format_table(row.to_dict() for row in rows).splitlines()
    assert head.split() == ["what", "ratio", "bound", "ours", "theirs"]
    assert one.split() == ["one", "0.500", "1", "1", "s", "2", "s"]
    assert two.split() == ["two", "-", "no", "network"]


@pytest.mark.parametrize("shape", ["bert-base", pytest.param("llama-160m", marks=pytest.mark.slow)])
def test_training_batches_are_compared(
    shape: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", f"training_batches --quick --shapes {shape} --training-batches 2".split())
    training_batches.main()
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["shape"] == shape
    assert math.isfinite(found["ratio"])
    assert found["bound"] == 1.03
    assert len(found["ratios"]) == 2
    assert found["folded_of_steps"] == [3, 6]
    assert "block 2" in found["layers"]
