"""theodolite view: the page is made and opened in a browser, here a small program that records its address."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from theodolite.report import page as page_module
from theodolite.studies.laboratory import Findings, make_facts

GROUPS = 'group,sentence\nhills,the {mountain|ridge} here\ntools,"an {angle|instrument}, it is"\n'


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(page_module, "read_plotly", lambda: "/* Plotly */")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of browsers is read once per process: read it again in every test."""
    monkeypatch.setattr("webbrowser._tryorder", None)
    monkeypatch.setattr("webbrowser._browsers", {})


@pytest.fixture(scope="module")
def made(tmp_path_factory, model, corpus) -> Path:
    from theodolite import survey

    folder = tmp_path_factory.mktemp("made") / "tiny"
    survey(str(model), str(corpus), out=folder, limit=40, sample_size=64)
    return folder


def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> Path:
    """Make a program that records its arguments and register it as a browser; return the file of its records."""
    notes, program = tmp_path / "notes.txt", tmp_path / "browser"
    program.write_text(
        f'#!{sys.executable}\nimport sys\nopen({str(notes)!r}, "w").write(" ".join(sys.argv[1:]))\n'
    )
    program.write_text(program.read_text() + f"sys.exit({code})\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER", str(program))
    return notes


def test_the_page_opens_in_the_browser(theodolite, made, tmp_path, monkeypatch):
    notes = browser(tmp_path, monkeypatch)
    page = tmp_path / "deep" / "my page.html"
    ran = theodolite("view", made, "--out", page)
    assert ran.code == 0, ran.err
    assert ran.out.strip() == f"report: {page}"
    assert notes.read_text() == page.resolve().as_uri()
    assert 'data-part="profiles"' in page.read_text("utf-8")


def test_without_a_name_the_page_is_a_temporary_file(theodolite, made, tmp_path, monkeypatch):
    notes = browser(tmp_path, monkeypatch)
    ran = theodolite("view", made)
    page = Path(ran.out.strip().removeprefix("report: "))
    assert page.is_relative_to(tmp_path)
    assert page.is_file()
    assert notes.read_text() == page.as_uri()


def test_no_open_does_not_start_the_browser(theodolite, made, tmp_path, monkeypatch):
    notes = browser(tmp_path, monkeypatch)
    assert theodolite("view", made, "--out", tmp_path / "page.html", "--no-open").code == 0
    assert not notes.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is always a browser to ask")
def test_without_a_browser_the_address_is_printed(theodolite, made, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    ran = theodolite("view", made, "--out", page)
    assert ran.code == 0
    assert "No browser could be opened" in ran.err
    assert ran.out.splitlines()[-1] == page.resolve().as_uri()
    browser(tmp_path, monkeypatch, code=1)
    monkeypatch.setattr("webbrowser._tryorder", None)
    assert "No browser could be opened" in theodolite("view", made, "--out", page).err


def test_follow_serves_the_page_until_it_is_interrupted(theodolite, made, tmp_path, monkeypatch):
    """The server answers one request for the page, as a browser would make, and is then interrupted."""
    from http.server import ThreadingHTTPServer
    from threading import Thread
    from urllib.request import urlopen

    pages = []

    def serve(server):
        address = f"http://127.0.0.1:{server.server_address[1]}/report"
        asking = Thread(target=lambda: pages.append(urlopen(address).read().decode()))
        asking.start()
        server.handle_request()
        asking.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", serve)
    ran = theodolite("view", made, "--follow", "--no-open")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("report: http://127.0.0.1:")
    assert 'data-part="profiles"' in pages[0]
    ran = theodolite("view", made, "--follow", "--out", tmp_path / "page.html")
    assert ran.code != 0
    assert "--out writes one page, and --follow serves a page that changes; give one of them." in ran.err
    ran = theodolite("view", made, "--port", "8000")
    assert ran.code == 2
    assert "--port is the port of --follow; add --follow, or omit it." in ran.err


def test_findings_of_a_laboratory_are_drawn(theodolite, model, tmp_path):
    groups, folder, page = tmp_path / "groups.csv", tmp_path / "laboratory", tmp_path / "page.html"
    groups.write_text(GROUPS)
    assert theodolite("groups", model, groups, "--permutations", 9, "--out", folder).code == 0
    ran = theodolite("view", folder, "--out", page, "--no-open")
    assert ran.code == 0, ran.err
    assert "drawing 1 study" in ran.err
    written = page.read_text("utf-8")
    assert "bert-spaces/fig23, after Luisto 2024." in written
    assert written.count("<img") == 1


def test_a_failing_exhibit_does_not_prevent_the_page(theodolite, made, tmp_path):
    Findings(make_facts("groups", None), {}).save(tmp_path / "broken")
    ran = theodolite("view", made, tmp_path / "broken", "--out", tmp_path / "page.html", "--no-open")
    assert ran.code == 0, ran.err
    assert "bert-spaces/fig23 was not drawn" in ran.err
    assert 'id="studies"' not in (tmp_path / "page.html").read_text("utf-8")


def test_a_path_that_is_not_a_file_is_rejected(theodolite, made, tmp_path):
    ran = theodolite("view", made, "--out", tmp_path)
    assert ran.code == 2
    assert "is a folder; give a file" in ran.err
    assert theodolite("view", tmp_path / "nowhere").code == 2
