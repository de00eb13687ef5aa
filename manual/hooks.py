"""What mkdocs does besides: the changelog, which lies above docs/, becomes a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    """Add CHANGELOG.md as changes.md."""
    files.append(File.generated(config, "changes.md", abs_src_path=str(ROOT / "CHANGELOG.md")))
    return files
