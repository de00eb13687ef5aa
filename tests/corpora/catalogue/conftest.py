"""A local package index: tiny wheels and source distributions, made by the tests, in a folder."""

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from theodolite.corpora.catalogue.entries import CorpusEntry

MakeEntry = Callable[..., CorpusEntry]

TEXTS = {"data/a.txt": b"one\r\ntwo\n", "data/b.txt": "naïve".encode()}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that is pip's only index; the cache is fresh."""
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "PIP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def wheel(shop: Path) -> MakeEntry:
    """Return a function that puts a wheel in the index and returns the entry that pins it."""

    def make(members: dict[str, bytes] = TEXTS, **changes: object) -> CorpusEntry:
        inside = "tinytexts-1.0.dist-info"
        named = {f"tinytexts/{name}": content for name, content in members.items()}
        named[f"{inside}/METADATA"] = b"Metadata-Version: 2.1\nName: tinytexts\nVersion: 1.0\n"
        named[f"{inside}/WHEEL"] = (
            b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        rows = [f"{name},sha256={_urlsafe(content)},{len(content)}" for name, content in named.items()]
        named[f"{inside}/RECORD"] = "\n".join([*rows, f"{inside}/RECORD,,", ""]).encode()
        file = shop / "tinytexts-1.0-py3-none-any.whl"
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in named.items():
                archive.writestr(name, content)
        return _entry(file, "tinytexts/*.txt", changes)

    return make


@pytest.fixture
def sdist(shop: Path) -> MakeEntry:
    """Return a function that makes source distributions."""

    def make(members: dict[str, bytes] = TEXTS, **changes: object) -> CorpusEntry:
        file = shop / "tinytexts-1.0.tar.gz"
        with tarfile.open(file, "w:gz") as archive:
            for name, content in members.items():
                about = tarfile.TarInfo(f"tinytexts-1.0/{name}")
                about.size = len(content)
                archive.addfile(about, io.BytesIO(content))
        return _entry(file, "*/data/*.txt", changes)

    return make


def _entry(file: Path, member: str, changes: dict[str, object]) -> CorpusEntry:
    facts: dict[str, object] = {
        "name": "tiny",
        "package": "tinytexts",
        "version": "1.0",
        "filename": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "size": file.stat().st_size,
        "licence": "MIT",
        "description": "two texts",
        "member": member,
        "form": "texts",
        "documents": 2,
    }
    return CorpusEntry(**{**facts, **changes})  # type: ignore[arg-type]


def _urlsafe(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
