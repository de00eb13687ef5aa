"""Hooks for mkdocs: the changelog, which is outside docs/, becomes a page; short cells of tables do not wrap."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
CELL = re.compile(r"<td((?: style=\"[^\"]*\")?)>(.*?)</td>", re.DOTALL)
SHORT = 24
"""Characters up to which a cell stays on one line, such as 0.206 [0.199, 0.213]."""


def on_files(files: Files, config: Any) -> Files:
    """Add CHANGELOG.md as changes.md."""
    files.append(File.generated(config, "changes.md", abs_src_path=str(ROOT / "CHANGELOG.md")))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Mark the short cells of tables, which the style sheet keeps on one line."""
    return CELL.sub(_mark_short, html)


def _mark_short(cell: re.Match[str]) -> str:
    style, content = cell.groups()
    text = unescape(re.sub(r"<[^>]*>", "", content)).strip()
    long = len(text) > SHORT or "<br" in content or "<img" in content
    return cell.group() if long else f'<td class="short"{style}>{content}</td>'
