"""A catalogue of two corpora in place of the real one, which would have to be fetched."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(autouse=True)
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = tmp_path / "held" / "novels.jsonl"
    held.parent.mkdir()
    held.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("call me", "it was")), encoding="utf-8")
    module = ModuleType("theodolite.corpora.catalogue.lookup")
    module.corpora_of = lambda kind: {"novels": None, "wikitext-2": None}  # type: ignore[attr-defined]
    module.corpus_file = lambda name, progress=None: held  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "theodolite.corpora.catalogue.lookup", module)
