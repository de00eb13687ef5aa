"""Revisions of a hub model, from a cache on disk: surveyed, distinguished by their weights, rejected if equal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.small_models import sentences
from tests.training_steps import checkpoints

STEPS = (10, 100)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache in which org/tiny has step10, step100, and a step200 with the weights of step100."""
    runs = checkpoints(tmp_path_factory.mktemp("runs"), STEPS)
    cache = tmp_path_factory.mktemp("hub")
    repository = cache / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "snapshots").mkdir()
    for place, (step, of) in enumerate({10: 10, 100: 100, 200: 100}.items()):
        commit = f"{place + 1:040x}"
        (repository / "refs" / f"step{step}").write_text(commit)
        shutil.copytree(runs / f"checkpoint-{of}", repository / "snapshots" / commit)
    (cache / "texts.txt").write_text("\n".join(sentences(40, longest=9)) + "\n", encoding="utf-8")
    return cache


def run(hub: Path, out: Path, *given: str) -> subprocess.CompletedProcess[str]:
    # The hub's library reads its settings once, when it is imported: hence another process.
    words = ["dynamics", "org/tiny", "--corpus", str(hub / "texts.txt"), "--sample-size", "64", "--out", str(out)]
    environment = {**os.environ, "HF_HUB_CACHE": str(hub), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "theodolite", *words, *given],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_revisions_are_surveyed_by_their_step(hub: Path, tmp_path: Path) -> None:
    done = run(hub, tmp_path / "series", "--revisions", "step{step}", "--steps", "100,10")
    assert done.returncode == 0, done.stderr
    series = json.loads((tmp_path / "series" / "series.json").read_text())
    assert [each["step"] for each in series["steps"]] == [10, 100]
    surveyed = json.loads((tmp_path / "series" / "steps" / "100" / "survey.json").read_text())
    assert surveyed["model"]["revision"] == f"{2:040x}"


@pytest.mark.slow
def test_two_revisions_with_the_same_weights_are_rejected_by_name(hub: Path, tmp_path: Path) -> None:
    done = run(hub, tmp_path / "series", "--revisions", "step10,step100,step200")
    assert done.returncode != 0
    assert "Steps 100 and 200 have the same weights" in " ".join(done.stderr.split())
    assert not (tmp_path / "series" / "steps").exists()


@pytest.mark.slow
def test_a_missing_revision_is_reported(hub: Path, tmp_path: Path) -> None:
    done = run(hub, tmp_path / "series", "--revisions", "step10,step999")
    assert done.returncode != 0
    assert "step999" in done.stderr
    assert "Traceback" not in done.stderr
