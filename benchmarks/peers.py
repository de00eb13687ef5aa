"""Install the tools that we compare with, in fixed versions, into their own environment in build/.

They require older libraries than ours. Without a package index nothing is installed, and the table says so.
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
    """A part cannot run on this machine; the message goes into the table."""


def install(name: str, version: str) -> None:
    """Install a tool into the environment, unless it is there; raise MissingError if that fails."""
    if not PYTHON.exists():
        venv.create(PEERS, with_pip=True)
    check = f"from importlib.metadata import version; assert version('{name}') == '{version}'"
    if subprocess.run([str(PYTHON), "-c", check], capture_output=True, check=False).returncode:
        _pip([str(PYTHON), *PIP, f"{name}=={version}"])


@contextmanager
def unpacked(name: str, version: str) -> Iterator[None]:
    """Make a package without further dependencies importable from its own folder in build/."""
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
    """Return the last line that a failing command printed."""
    return (text.strip().splitlines() or ["no message"])[-1]
