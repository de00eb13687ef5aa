"""Where a GPU works, the weights are hashed beside the fold; here a CPU stands for the GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.small_models import sentences

from theodolite.engines.progress import Listener, Progress
from theodolite.models import checkpoint
from theodolite.surveys import text_survey
from theodolite.surveys.api import survey

DOCUMENTS = sentences(40, seed=5)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Hash weights only when this is set."""
    hashed, find_sha256, make_plan = Event(), checkpoint.weights_sha256, text_survey.plan

    def wait(folder: Path) -> str:
        hashed.wait(60)
        return find_sha256(folder)

    monkeypatch.setattr(checkpoint, "weights_sha256", wait)
    monkeypatch.setattr(
        text_survey, "plan", lambda *given, **more: replace(make_plan(*given, **more), device="cpu")
    )
    return hashed


class OnProgress(Listener):
    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call

    def progress(self, progress: Progress) -> None:
        self.call()


def interrupt() -> None:
    raise KeyboardInterrupt


def test_the_fold_does_not_wait_for_the_hash(small_model: Any, hashed: Event, tmp_path: Path) -> None:
    found = survey(small_model("bert"), DOCUMENTS, out=tmp_path / "out", listener=OnProgress(hashed.set))
    assert found.facts["model"]["sha256"] == checkpoint.weights_sha256(small_model("bert"))


def test_an_interrupted_run_neither_waits_for_the_hash_nor_writes(
    small_model: Any, hashed: Event, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        survey(small_model("bert"), DOCUMENTS, out=out, listener=OnProgress(interrupt))
    hashed.set()
    for thread in threading.enumerate():
        if thread.name == "theodolite-background":
            thread.join(60)
    assert list(out.iterdir()) == []
    survey(small_model("bert"), DOCUMENTS, out=out)
    assert (out / "survey.json").is_file()
