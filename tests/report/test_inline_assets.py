"""The page names its own scripts in its policy: read back from the file as a browser reads it."""

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest

from theodolite.report import Tables, write
from theodolite.report.inline_assets import SCRIPTS, read_css, read_plotly, read_script


@pytest.fixture
def written(tables: Tables, tmp_path: Path) -> bytes:
    write([tables], tmp_path / "report.html")
    return (tmp_path / "report.html").read_bytes()


def test_the_policy_holds_the_hash_of_each_script_and_no_other(written: bytes) -> None:
    policy = re.search(rb'Content-Security-Policy" content="([^"]*)"', written)
    assert policy
    allowed = re.findall(rb"'sha256-([^']+)'", policy[1])
    # A script ends at the first end tag, whatever its text says.
    scripts = re.findall(rb"<script>(.*?)</script>", written, re.DOTALL | re.IGNORECASE)
    assert len(scripts) == 2
    assert allowed == [b64encode(sha256(text).digest()) for text in scripts]
    # A browser hashes text whose line ends it has made into \n.
    assert not any(b"\r" in text for text in scripts)


def test_nothing_in_a_script_ends_it_or_hides_its_end() -> None:
    for text in (read_script(), read_plotly()):
        assert not re.search(r"</script", text, re.IGNORECASE)
        # After "<!--" and "<script" a browser looks for the end elsewhere.
        assert "<!--" not in text
    assert "</style" not in read_css()


def test_every_script_of_the_folder_is_on_the_page_once() -> None:
    names = {
        path.name[:-3]
        for path in files("theodolite.report").joinpath("assets").iterdir()
        if path.name.endswith(".js")
    }
    assert names == {*SCRIPTS, "start"}
    assert len(SCRIPTS) == len(set(SCRIPTS))


def test_nothing_requests_the_network() -> None:
    assert not re.search(r"@import|url\(", read_css())
    assert not re.search(
        r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\b", read_script()
    )
    assert "innerHTML" not in read_script()
