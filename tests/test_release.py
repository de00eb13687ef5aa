"""The version is the same wherever it is written, and the package holds every file that it reads."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)[1] == version
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == version
    assert f"version = {{{version}}}" in (ROOT / "README.md").read_text("utf-8")


def test_every_data_file_is_in_the_package() -> None:
    package = ROOT / "src/theodolite"
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["theodolite"]
    packed = {path for pattern in patterns for path in package.glob(pattern)}
    held = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert held == packed
