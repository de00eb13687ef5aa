"""Files that the pages for developers name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "theodolite"


@pytest.mark.parametrize(
    "page",
    ["how-it-works.md", "extending.md", "benchmarks.md", "benchmarks-gpu.md", "survey-folder.md", "cluster.md"],
)
def test_named_files_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    named = {
        path
        for path in re.findall(r"`([\w./-]+/[\w.-]*(?:\.py|/))`", text)
        if not re.search("NAME|PAPER|DIR|KIND", path)
    }
    missing = [path for path in named if not any((base / path).exists() for base in (PACKAGE, ROOT, ROOT / "src"))]
    assert not missing, sorted(missing)
