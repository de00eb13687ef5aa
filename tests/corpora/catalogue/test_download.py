"""Ways to reach the index, and the errors if there is none."""

import base64
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from theodolite.corpora.catalogue import download
from theodolite.corpora.catalogue import download as fetching
from theodolite.corpora.catalogue.download import (
    NPM,
    PYPI,
    PipSettings,
    compute_sha256,
    download_entry,
    npm_registry,
    parse_config_list,
    parse_settings,
    read_pip_settings,
)
from theodolite.corpora.catalogue.entries import CORPORA
from theodolite.errors import OfflineError

# A build backend inside the package: whoever prepares its metadata runs it.
BACKEND = b"""
import os, pathlib
pathlib.Path(os.environ["MARK"]).write_text("ran")
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    info = pathlib.Path(folder) / "tinytexts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: tinytexts\\nVersion: 1.0\\n")
    return info.name
def build_wheel(folder, config_settings=None, metadata_directory=None):
    raise NotImplementedError
"""
PROJECT = b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
PASSWORD = "Basic " + base64.b64encode(b"me:p@ss").decode()
PACKAGE = {"data/a.txt": b"a", "PKG-INFO": b"Metadata-Version: 2.1\nName: tinytexts\nVersion: 1.0\n"}


@pytest.fixture
def index(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str | None]]]:
    """Serve the index with a password; yield its address and the received headers."""
    (shop / "simple/tinytexts").mkdir(parents=True)
    headers: list[str | None] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.append(self.headers.get("Authorization"))
            if headers[-1] == PASSWORD:
                super().do_GET()
            else:
                self.send_error(401)

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(shop)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    yield f"127.0.0.1:{server.server_port}/simple", headers
    server.shutdown()
    server.server_close()


def list_files(shop: Path) -> None:
    links = [
        f'<a href="../../{file.name}#sha256={compute_sha256(file)}">{file.name}</a>'
        for file in shop.iterdir()
        if file.is_file()
    ]
    (shop / "simple/tinytexts/index.html").write_text("<html><body>" + "\n".join(links) + "</body></html>")


def test_a_source_distribution_never_runs(sdist, shop, tmp_path, monkeypatch):
    entry = sdist({**PACKAGE, "backend.py": BACKEND, "pyproject.toml": PROJECT})
    mark = tmp_path / "mark"
    monkeypatch.setenv("MARK", str(mark))
    (tmp_path / "into").mkdir()
    assert download_entry(entry, tmp_path / "into").name == entry.filename
    assert not mark.exists()
    # The tempting way does run it.
    tempting = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(tmp_path), "tinytexts==1.0"]
    subprocess.run([*tempting, "--no-binary", ":all:"], check=True, capture_output=True)
    assert mark.exists()


@pytest.mark.parametrize("packing", ["wheel", "sdist"])
def test_from_an_index_with_a_password(packing, request, shop, index, tmp_path, monkeypatch):
    address, headers = index
    entry = request.getfixturevalue(packing)()
    list_files(shop)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:p%40ss@{address}")
    (tmp_path / "into").mkdir()
    assert download_entry(entry, tmp_path / "into").read_bytes() == (shop / entry.filename).read_bytes()
    assert set(headers) == {PASSWORD}


def test_from_an_index_in_a_folder(sdist, shop, tmp_path, monkeypatch):
    entry = sdist()
    (shop / "simple/tinytexts").mkdir(parents=True)
    list_files(shop)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", (shop / "simple").as_uri())
    (tmp_path / "into").mkdir()
    assert download_entry(entry, tmp_path / "into").exists()


def test_without_pip_a_wheel_is_downloaded_from_the_index_page(wheel, shop, tmp_path, monkeypatch):
    entry = wheel()
    monkeypatch.setattr(download, "has_pip", lambda: False)
    monkeypatch.setattr(fetching, "has_pip", lambda: False)
    (tmp_path / "into").mkdir()
    assert download_entry(entry, tmp_path / "into").exists()


@pytest.mark.parametrize("packing", ["wheel", "sdist"])
def test_an_unreachable_index_error_names_package_attempt_and_fix(packing, request, shop, tmp_path, monkeypatch):
    entry = request.getfixturevalue(packing)()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:secret@127.0.0.1:9/simple")
    (tmp_path / "into").mkdir()
    with pytest.raises(OfflineError) as caught:
        download_entry(entry, tmp_path / "into")
    sentence = str(caught.value)
    assert "Could not download tiny" in sentence
    assert "package tinytexts 1.0" in sentence
    assert "refused" in sentence
    assert "set THEODOLITE_CACHE" in sentence
    assert "secret" not in sentence


def test_a_file_missing_from_every_index_is_reported(sdist, shop, tmp_path):
    entry = sdist(filename="tinytexts-2.0.tar.gz")
    with pytest.raises(OfflineError, match=r"does not list tinytexts-2.0.tar.gz"):
        download_entry(entry, tmp_path)


def test_pip_settings_are_read_from_pip(monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "https://one.example/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://two.example/simple https://three.example/simple")
    monkeypatch.setenv("PIP_TIMEOUT", "7")
    read = read_pip_settings()
    assert read.indexes == tuple(f"https://{name}.example/simple" for name in ("one", "two", "three"))
    assert read.timeout == 7.0


def test_a_pip_module_in_the_working_folder_is_not_run(wheel, shop, tmp_path, monkeypatch):
    """`python -m pip` alone would look for pip in the folder that the user happens to be in."""
    entry, here, mark = wheel(), tmp_path / "here", tmp_path / "mark"
    here.mkdir()
    (here / "pip.py").write_text(f"open({str(mark)!r}, 'w').close()")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PIP_TIMEOUT", "7")
    assert read_pip_settings().timeout == 7.0
    assert download_entry(entry, here).exists()
    assert not mark.exists()


def test_environment_overrides_command_overrides_global():
    listing = (
        ":env:.cert='e'\ndownload.cert='d'\nglobal.cert='g'\ndownload.proxy='d'\nglobal.proxy='g'\ninstall.x='i'"
    )
    assert parse_config_list(listing) == {"cert": "e", "proxy": "d"}


def test_no_settings_mean_pypi_and_no_index_means_none():
    assert parse_settings({}) == PipSettings(indexes=(PYPI,))
    assert parse_settings({"no-index": "true"}).indexes == ()


def test_a_package_of_npm_comes_from_the_registry_of_the_settings(tmp_path, monkeypatch):
    folder = tmp_path / "registry" / "tinytexts" / "-"
    folder.mkdir(parents=True)
    (folder / "tinytexts-1.0.tgz").write_bytes(b"archive")
    entry = replace(
        CORPORA["udhr"],
        package="tinytexts",
        filename="tinytexts-1.0.tgz",
        sha256=compute_sha256(folder / "tinytexts-1.0.tgz"),
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(fetching, "read_pip_settings", PipSettings)
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    assert npm_registry() == NPM
    (tmp_path / ".npmrc").write_text(f"color = true\nregistry = {(tmp_path / 'registry').as_uri()}/\n")
    assert download_entry(entry, tmp_path).read_bytes() == b"archive"
    monkeypatch.setenv("npm_config_registry", (tmp_path / "nowhere").as_uri())
    with pytest.raises(OfflineError, match="the npm registry did not provide it"):
        download_entry(entry, tmp_path)
