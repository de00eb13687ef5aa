"""Bad input gets a sentence and exit code 2, never a traceback; a failure gets 1."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tests.cli.conftest import Theodolite


def check_rejected(ran, *words: str, code: int = 2) -> None:
    assert ran.code == code, ran.err
    assert ran.err.count("theodolite: ") == 1
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err


def files(folder: Path) -> dict[str, Path]:
    """Make a corpus for every way in which one can be wrong."""
    made = {
        name: folder / name
        for name in ("empty.txt", "blank.txt", "latin.txt", "a.jsonl", "a.parquet", "bad.txt.gz")
    }
    made["empty.txt"].write_bytes(b"")
    made["blank.txt"].write_bytes(b"\n  \n\t\n")
    made["latin.txt"].write_bytes(b"fine line\nbad \xff line\n")
    made["a.jsonl"].write_text('{"body": "hello there", "title": "x"}\n')
    pd.DataFrame({"body": ["hello there"], "n": [1]}).to_parquet(made["a.parquet"])
    made["bad.txt.gz"].write_bytes(gzip.compress(b"text\n" * 1000)[:30])
    return made


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.txt", ["missing.txt"]),
        ("empty.txt", ["contains no text"]),
        ("blank.txt", ["contains no text"]),
        ("latin.txt", ["latin.txt", "line 2", "--encoding-errors replace"]),
        ("a.jsonl", ["text", "body", "title", "--field"]),
        ("a.parquet", ["text", "body", "--column"]),
        ("bad.txt.gz", ["bad.txt.gz"]),
        ("shakespear", ["Did you mean", "shakespeare"]),
    ],
)
def test_a_bad_corpus_is_reported(theodolite: Theodolite, model, tmp_path, monkeypatch, name, words):
    files(tmp_path)
    monkeypatch.chdir(tmp_path)  # a long path would be cut short
    check_rejected(theodolite("survey", model, "--corpus", name, "--out", tmp_path / "s"), *words)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [("--limit", "five", "an integer"), ("--limit", "5.5", "an integer"), ("--sample", "half", "a number")],
)
def test_a_value_that_is_no_number_is_reported_in_one_sentence(theodolite, tmp_path, option, value, kind):
    """The library that parses arguments would print the sentence of the library that converts them."""
    ran = theodolite("survey", "minilm-l6", "--corpus", "chitchat", option, value, "--out", tmp_path / "s")
    assert (ran.code, ran.err) == (2, f"theodolite: {option} requires {kind} (got {value!r}).\n")


def test_invalid_bytes_can_be_replaced(theodolite, model, tmp_path):
    latin = files(tmp_path)["latin.txt"]
    ran = theodolite("survey", model, "--corpus", latin, "--out", tmp_path / "s", "--encoding-errors", "replace")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--layers", "0,99"], ["layer 99", "does not exist", "0 to"]),
        (["--layers", "0-99"], ["--layers 0-99 names", "that do not exist", "this model has layers 0 to"]),
        (["--max-seconds", "5"], ["--max-seconds applies to speech only (the model is of kind text)"]),
        (["--maps", "flat"], ["--maps applies to vision and convolution only"]),
        (["--skip-bad"], ["--skip-bad applies to speech, vision and convolution only"]),
        (["--field", "body"], ["--field 'body' has no effect on", "it applies to .jsonl files only. Omit it."]),
        (["--column", "body"], ["--column 'body' has no effect on", ".parquet files and datasets only"]),
        (["--revision", "main"], ["--revision 'main' applies to models of the hub", "is a folder. Omit"]),
        (["--clean-words"], ["--clean-words requires --units word", "(got id)"]),
        (["--units", "words"], ["--units 'words'", "id, surface, word"]),
        (["--populations", "all,without-second"], ["'without-second'", "without-first"]),
        (["--populations", "without-first"], ["must include 'all'"]),
        (["--dtype", "float8"], ["--dtype 'float8'", "bfloat16"]),
        (["--wrap", "--max-tokens", "2"], ["--max-tokens 2"]),
        (["--max-tokens", "2"], ["--max-tokens 2"]),
        (["--max-tokens", "100000"], ["--max-tokens 100000"]),
        (["--memory", "lots"], ["--memory 'lots'", "8G"]),
        (["--memory", "1K"], ["needs about", "--layers", "--units", "--memory"]),
        (["--part", "70/80"], ["the corpus has only 1 shard, so this part is empty"]),
        (["--sample", "1.5"], ["--sample"]),
        (["--max-words", "4", "--min-words", "9"], ["--min-words", "--max-words"]),
        (["--min-words", "5000"], ["--min-words", "removed 200"]),
        (["--limit", "0"], ["--limit"]),
        (["--sample-size", "-1"], ["--sample-size"]),
    ],
)
def test_a_wrong_option_is_rejected(theodolite: Theodolite, model, corpus, tmp_path, options, words):
    out = tmp_path / "s"
    check_rejected(theodolite("survey", model, "--corpus", corpus, "--out", out, *options), *words)
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--layers", "all"], ["--layers requires numbers and ranges", "'all'"]),
        (["--layers", "3-1"], ["--layers: the range '3-1' is empty", "1-3"]),
        (["--layers", " , "], ["--layers selects no layer"]),
        (["--device", "gpu"], ["--device 'gpu' is not a device", "cuda:1"]),
        (["--device", "cuda:77"], ["--device 'cuda:77' is not available on this machine. Try --device cpu"]),
        (["--device", "meta"], ["--device 'meta' is not available on this machine"]),
        (["--part", "2/2"], ["--part '2/2': expected I/N"]),
        (["--part", "half"], ["--part 'half': expected I/N"]),
        (["--pilot", "nowhere"], ["--pilot nowhere: there is no pilot.safetensors in this folder"]),
        (["--units", "word", "--clean-words", "--part", "9"], ["--part '9'"]),
    ],
)
def test_wrong_options_are_rejected_before_the_corpus_is_read(
    theodolite: Theodolite, tmp_path, monkeypatch, options, words
):
    def opened(*given, **named):
        pytest.fail("the corpus was opened")

    monkeypatch.setattr("theodolite.surveys.text_survey.open_corpus", opened)
    check_rejected(
        theodolite("survey", "no-model", "--corpus", "none.txt", "--out", tmp_path / "s", *options), *words
    )
    assert list(tmp_path.iterdir()) == []


def test_an_out_that_cannot_be_written_is_rejected_before_the_corpus_is_read(theodolite: Theodolite, tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file" / "s", tmp_path / "file" / "deep" / "s"):
        ran = theodolite("survey", "no-model", "--corpus", "none.txt", "--out", out)
        check_rejected(ran, f"--out {out} cannot be written", "Choose another folder")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_bad_model_is_reported(theodolite: Theodolite, corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "folder").mkdir()
    for name, words in {
        str(tmp_path / "folder"): ["config.json"],
        str(tmp_path / "nothing"): ["no such folder"],
        str(tmp_path / "nothing.gguf"): ["no such file"],
    }.items():
        check_rejected(theodolite("survey", name, "--corpus", corpus, "--out", tmp_path / "s"), *words)


@pytest.mark.slow
def test_an_unknown_name_suggests_the_nearest(corpus, tmp_path):
    """In a separate process: the hub's client reads the environment when it is imported."""
    command = [sys.executable, "-m", "theodolite", "survey", "minilm", "--corpus", corpus, "--out", tmp_path / "s"]
    ran = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env={"HF_HUB_OFFLINE": "1", "HOME": str(tmp_path)}
    )
    assert ran.returncode in (1, 2)
    assert "Did you mean 'minilm-l6'?" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_folder_in_use_is_not_changed(theodolite: Theodolite, model, corpus, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    check_rejected(
        theodolite("survey", model, "--corpus", corpus, "--out", tmp_path), "notes.txt", "Choose another folder"
    )
    check_rejected(
        theodolite("survey", model, "--corpus", corpus, "--out", tmp_path, "--overwrite"),
        "not part of a survey",
        "notes.txt",
    )
    assert (tmp_path / "notes.txt").read_text() == "mine"
    check_rejected(theodolite("survey", model, "--corpus", corpus, "--out", tmp_path / "notes.txt"), "is a file")


def test_a_resume_with_other_settings_lists_them(theodolite: Theodolite, model, corpus, tmp_path):
    out = tmp_path / "s"
    given = ("survey", model, "--corpus", corpus, "--out", out, "--sample-size", 64)
    assert theodolite(*given).code == 0
    ran = theodolite(*given, "--resume", "--units", "surface")
    check_rejected(ran, "--units: 'id' there, 'surface' now")
    same = theodolite(*given, "--resume")
    assert same.code == 0
    assert "nothing to do" in same.err


def test_a_damaged_survey_names_the_file(theodolite: Theodolite, finished, tmp_path):
    out = shutil.copytree(finished, tmp_path / "s")
    with (out / "layers.parquet").open("r+b") as stream:
        stream.seek(100)
        stream.write(b"xxxx")
    check_rejected(theodolite("show", out), "layers.parquet", "damaged", code=1)


@pytest.mark.parametrize(
    ("name", "array", "options", "words"),
    [
        ("missing.npy", None, [], ["no such file"]),
        ("vectors.txt", "text", [], [".npy", ".safetensors"]),
        ("broken.npy", "text", [], ["cannot be read"]),
        ("line.npy", np.zeros(4), [], ["expected a numeric matrix"]),
        ("fine.npy", np.zeros((4, 3)), ["--groups", "label"], ["numpy.savez"]),
        ("fine.npz", {"x": np.zeros((4, 3)), "y": np.zeros(4)}, ["--groups", "z"], ["--groups 'z'", "x, y"]),
        ("fine.npz", {"x": np.zeros((4, 3)), "y": np.zeros((5, 3))}, [], ["different lengths", "--column"]),
    ],
)
def test_measure_reports_bad_input(theodolite: Theodolite, tmp_path, name, array, options, words):
    path = tmp_path / name
    if isinstance(array, str):
        path.write_text(array)
    elif isinstance(array, dict):
        np.savez(path, **array)
    elif array is not None:
        np.save(path, array)
    check_rejected(theodolite("measure", path, *options), *words)


@pytest.mark.parametrize(
    "command",
    [
        ["report", "DIR", "--out", "s3://bucket/page.html"],
        ["report", "DIR", "--out", "gs://bucket/page.md"],  # whose package need not be installed
        ["view", "DIR", "--out", "s3://bucket/page.html", "--no-open"],
        ["compare", "DIR", "--out", "s3://bucket/compared.png"],
        ["exhibit", "norm-variance/fig2", "DIR", "--out", "s3://bucket/figure.png"],
        ["exhibit", "norm-variance/fig2", "DIR", "--out", "figure.png", "--data", "s3://bucket/figure.csv"],
        ["export", "DIR", "--to", "projector", "--out", "s3://bucket/vectors"],
        ["what-if", "DIR", "--out", "s3://bucket/table.csv"],
    ],
)
def test_verbs_that_write_to_disk_only_reject_buckets(theodolite: Theodolite, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    address = next(word for word in command if "://" in word)
    check_rejected(
        theodolite(*command), f"{address}: `theodolite {command[0]}` writes to disk only. Give a local path"
    )
    assert not list(tmp_path.iterdir())


def test_a_file_url_is_a_path(theodolite: Theodolite, tmp_path):
    ran = theodolite("report", tmp_path, "--out", f"file://{tmp_path}/page.txt")
    check_rejected(ran, f"--out {tmp_path}/page.txt must end in .html or .md")


@pytest.mark.slow
def test_debug_shows_the_traceback(corpus, tmp_path):
    command = [sys.executable, "-m", "theodolite", "show", str(tmp_path / "nothing"), "--debug"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1
    assert "Traceback" in ran.stderr


def test_a_device_that_is_full_when_tables_are_computed(
    theodolite: Theodolite, model, corpus, tmp_path, monkeypatch
):
    def raise_full(*given, **options):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 139 GiB.")

    monkeypatch.setattr("theodolite.tables.tables.measure_shape", raise_full)
    ran = theodolite("survey", model, "--corpus", corpus, "--out", tmp_path / "out")
    check_rejected(ran, "Out of memory (CUDA out of memory)", "fewer --layers", code=1)
