"""Every example of a training run writes a series with its loss."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.integrations.worker_processes import run_processes, use_deepspeed_on_cpu
from tests.shared import slow

from theodolite.studies.series import Series

FOLDER = Path(__file__).parents[2] / "examples/training"
NEEDS = {
    "accelerate_loop": "accelerate",
    "lightning_trainer": "lightning",
    "peft_lora": "peft",
    "sentence_transformers_trainer": "sentence_transformers",
    "transformers_trainer": "accelerate",
}
PARALLEL = ("fsdp2", "deepspeed_zero3")  # a launcher starts these


def run_example(name: str, *arguments: str) -> None:
    before, sys.path[:] = list(sys.path), [str(FOLDER), *sys.path]
    argv, sys.argv = sys.argv, [f"{name}.py", *arguments]
    try:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    finally:
        sys.path[:], sys.argv = before, argv
        sys.modules.pop("tiny", None)


def _scripts() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("tiny", *PARALLEL))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [slow(name) if name in NEEDS else name for name in _scripts()])
def test_the_example_writes_a_series(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    run_example(name, "--out", str(tmp_path / "series"), "--steps", "6")
    folder = tmp_path / "series"
    for inside in [folder] if (folder / "series.json").is_file() else [folder / "tokens", folder / "sentences"]:
        series = Series.read(inside)
        assert series.steps[0].step in (0, 5)
        assert series.steps[-1].step in (5, 6)
        assert series.table["effective_rank"].notna().any()
        if inside.name != "sentences":
            assert series.tables["training"]["loss"].notna().any()


def _run_parallel(rank: int, name: str, arguments: list[str]) -> int:
    torch.manual_seed(0)
    if name == "deepspeed_zero3":
        use_deepspeed_on_cpu()
    run_example(name, *arguments)
    return rank


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "options"), [("fsdp2", []), ("fsdp2", ["--replicate"]), ("deepspeed_zero3", [])])
def test_the_example_of_several_processes(name: str, options: list[str], tmp_path: Path) -> None:
    if name == "deepspeed_zero3":
        pytest.importorskip("deepspeed")
    arguments: list[Any] = ["--out", str(tmp_path / "series"), *options]
    assert run_processes(_run_parallel, 2, tmp_path, name, arguments) == [0, 1]
    assert [each.step for each in Series.read(tmp_path / "series").steps] == [0, 2, 4]
