"""One run at a time writes to a folder, by whatever name it is given; others are rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.small_models import sentences

import theodolite
from theodolite.errors import InputError
from theodolite.storage.bucket import Bucket
from theodolite.storage.lock import LOCK, exclusive, find_writer
from theodolite.surveys.api import survey
from theodolite.surveys.folder import open_survey

IN_USE = r"--out .*: another run is writing there\. Wait for it, or choose another folder"


def test_links_to_a_folder_have_one_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real" / "out").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "out")
    (tmp_path / "parent").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path / "real" / "out")
    names = [tmp_path / "link", tmp_path / "parent" / "out", tmp_path / "real" / "x" / ".." / "out", Path()]
    with exclusive(tmp_path / "real" / "out"):
        for name in names:
            assert find_writer(name) == "another run"
            with pytest.raises(InputError, match=IN_USE), exclusive(name):
                pass
    for name in names:
        assert find_writer(name) is None
        with exclusive(name):
            pass
    assert [path.name for path in tmp_path.rglob(".*")] == []


def test_a_lock_file_of_a_killed_run_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".out.lock").touch()
    assert find_writer(tmp_path / "out") is None
    with exclusive(tmp_path / "out"):
        assert find_writer(tmp_path / "out") == "another run"


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
def test_a_second_run_is_rejected_before_anything_is_loaded(tmp_path: Path, options: dict[str, Any]) -> None:
    import numpy as np

    out = tmp_path / "out"
    out.mkdir()
    (out / "unfinished.json").write_text("{}")
    with exclusive(out):
        with pytest.raises(InputError, match=IN_USE):
            survey("no model", "no corpus", out=out, **options)
        with pytest.raises(InputError, match=IN_USE):
            theodolite.measure(np.eye(3), out=out, **options)
        if "resume" not in options:
            with pytest.raises(InputError, match=IN_USE):
                theodolite.merge(["a", "b"], out=out, **options)


def test_a_reader_learns_that_the_survey_is_being_written(tmp_path: Path) -> None:
    for made in (False, True):
        if made:
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "unfinished.json").write_text("{}")
        with exclusive(tmp_path / "out"), pytest.raises(InputError) as raised:
            open_survey(tmp_path / "out")
        assert str(raised.value) == (
            f"{tmp_path / 'out'} is an unfinished survey: another run is writing it. Wait for it."
        )
    with pytest.raises(InputError, match="contains an unfinished survey"):
        open_survey(tmp_path / "out")


def test_a_reader_of_a_bucket_learns_who_writes() -> None:
    out = Bucket(f"memory://{uuid4().hex}/survey")
    assert find_writer(out) is None
    words = r"another run \(.*, process \d+, .*\) is writing it\. Wait for it, or if it was killed, .* --resume"
    with exclusive(out), pytest.raises(InputError, match=words):
        open_survey(out)
    (out / LOCK).write_text("not JSON")
    assert find_writer(out) == "another run (unknown run)"


def test_show_says_that_the_survey_is_being_replaced(
    small_model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from theodolite.cli.show import show

    survey(small_model("bert"), sentences(9), out=tmp_path / "out", layers="0")
    show(tmp_path / "out")
    assert capsys.readouterr().err == ""
    with exclusive(tmp_path / "out"):
        show(tmp_path / "out")
    printed = capsys.readouterr()
    assert "another run is replacing this survey; the old one is shown" in printed.err
    assert "embeddings" in printed.out
