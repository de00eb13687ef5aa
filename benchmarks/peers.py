"""The peers' environment: other tools in the versions compared with, installed where they disturb nothing of ours.

They want older libraries, so they get an environment of their own, made once in build/. Without a package index
nothing is installed, and the table says so.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "build" / "peers"
PYTHON = PEERS / ("Scripts" if sys.platform == "win32" else "bin") / "python"
PIP = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


class MissingError(Exception):
    """A part cannot run here; its words go into the table."""


def install(name: str, version: str) -> None:
    """Install a peer into the peers' environment where it is not yet, or raise with the reason."""
    if not PYTHON.exists():
        venv.create(PEERS, with_pip=True)
    check = f"from importlib.metadata import version; assert version('{name}') == '{version}'"
    if subprocess.run([str(PYTHON), "-c", check], capture_output=True, check=False).returncode:
        _pip([str(PYTHON), *PIP, f"{name}=={version}"])


@contextmanager
def unpacked(name: str, version: str) -> Iterator[None]:
    """Let a package that needs nothing but what we have be imported from a folder of its own."""
    folder = ROOT / "build" / f"peer-{name}-{version}"
    if not folder.is_dir():
        _pip([sys.executable, *PIP, "--no-deps", "--target", str(folder), f"{name}=={version}"])
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _pip(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(f"{command[-1]} could not be installed: {last_line(done.stderr)}")


def last_line(text: str) -> str:
    """Return what a failing command said last."""
    return (text.strip().splitlines() or ["no word of why"])[-1]
