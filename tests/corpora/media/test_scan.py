"""Corpora of files: which are found; order, sha256, shards and pilot as pure functions of names and bytes."""

import hashlib
import pickle
from pathlib import Path

import pytest
from tests.corpora.media.sounds import tone, wav

from theodolite.corpora.audio_corpus import AudioOptions, open_audio, read_clip, scan_audio
from theodolite.corpora.media_corpus import shard_pieces
from theodolite.corpora.shards import Shard
from theodolite.errors import InputError
from theodolite.hashing import mix

NAMES = ["z.wav", "a/2.WAV", "a/10.wav", "b/deep/er.wav", "B.wav"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "sounds"
    for number, name in enumerate(NAMES):
        wav(root / name, tone(1 + number, 4_000, 100 + number), 4_000)
    for name in ("notes.txt", ".hidden.wav", ".git/x.wav"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"not sound")
    return root


def test_files_below_a_folder_in_order_with_labels(folder: Path) -> None:
    opened = open_audio(folder)
    assert [(file.name, file.label) for file in opened.files] == [
        ("B.wav", ""),
        ("a/10.wav", "a"),
        ("a/2.WAV", "a"),
        ("b/deep/er.wav", "b/deep"),
        ("z.wav", ""),
    ]
    found = scan_audio(opened)
    assert [(number, clip.name, clip.label) for number, clip in found.pieces][1] == (1, "a/10.wav", "a")
    assert found.labels == {"": 2, "a": 2, "b/deep": 1}
    assert (found.documents, found.size, found.sorts) == (5, 15.0, {"4000 Hz": 5})


def test_a_glob_and_a_file_are_corpora_too(folder: Path) -> None:
    assert [file.name for file in open_audio(f"{folder}/**/*.wav").files] == [
        "B.wav",
        "a/10.wav",
        "b/deep/er.wav",
        "z.wav",
    ]
    (only,) = open_audio(folder / "a" / "2.WAV").files
    assert (only.name, only.label) == ("2.WAV", "")
    assert [file.label for file in open_audio(str(folder / "?" / "*.wav")).files] == ["a"]


def test_the_sha256_is_of_names_and_bytes(folder: Path, tmp_path: Path) -> None:
    found = scan_audio(open_audio(folder))
    digest = hashlib.sha256()
    for file in open_audio(folder).files:
        name, raw = file.name.encode(), file.path.read_bytes()
        digest.update(len(name).to_bytes(8, "little") + len(raw).to_bytes(8, "little") + name + raw)
    assert found.sha256 == digest.hexdigest()
    folder.rename(tmp_path / "moved")
    assert scan_audio(open_audio(tmp_path / "moved")).sha256 == found.sha256
    (tmp_path / "moved" / "z.wav").rename(tmp_path / "moved" / "y.wav")
    assert scan_audio(open_audio(tmp_path / "moved")).sha256 != found.sha256


def test_shards_hold_every_piece_once_and_are_bounded(folder: Path) -> None:
    opened = open_audio(folder, AudioOptions(max_seconds=1.0))
    found = scan_audio(opened, shard_seconds=2.5)
    assert len(found.pieces) == 15
    parts = list(shard_pieces(found, found.shards[::-1]))
    assert [piece for _, pieces in parts for piece in pieces] == list(found.pieces)
    for shard, pieces in parts:
        assert 2.5 <= sum(clip.seconds for _, clip in pieces) < 3.5 or shard == found.shards[-1]
    # the clips of one recording share its number and are counted through
    assert [(number, clip.window) for number, clip in found.pieces if clip.name == "a/2.WAV"] == [(2, 0), (2, 1)]
    assert scan_audio(opened, shard_seconds=100).shards == (Shard(0, 0, 15),)


def test_the_pilot_is_chosen_by_hash(folder: Path) -> None:
    opened = open_audio(folder, AudioOptions(max_seconds=1.0))
    found = scan_audio(opened, pilot_seconds=4)
    places = {(number, clip.window): index for index, (number, clip) in enumerate(found.pieces)}
    expected = sorted(sorted(places, key=lambda place: int(mix(*place)))[:4])
    assert [(number, clip.window) for number, clip in found.pilot] == expected
    # Half a corpus is read no differently from a whole one: a piece's hash is its own.
    assert scan_audio(opened, pilot_seconds=0.5).pilot[0] in found.pilot


def test_sample_and_limit_work_as_for_text(folder: Path) -> None:
    kept = {number for number in range(5) if int(mix(7, number)) < 2**63}
    found = scan_audio(open_audio(folder, AudioOptions(sample=0.5, seed=7)))
    assert {number for number, _ in found.pieces} == kept
    found = scan_audio(open_audio(folder, AudioOptions(limit=2)))
    assert [clip.name for _, clip in found.pieces] == ["B.wav", "a/10.wav"]
    assert found.read == 2


def test_a_corpus_and_its_pieces_pickle(folder: Path) -> None:
    opened = pickle.loads(pickle.dumps(open_audio(folder)))
    found = scan_audio(opened)
    (number, clip), *_ = pickle.loads(pickle.dumps(found)).pieces
    assert number == 0
    assert len(read_clip(clip, 4_000)) == 20_000


def test_missing_input_is_reported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for what, words in (
        ("speach", r"is neither a folder, a file nor audio of the catalogue.*: speech\. Did you mean 'speech'\?"),
        (
            str(tmp_path / "empty"),
            "contains no audio, nor do its sub-folders; expected files ending in one of .wav, .flac",
        ),
        (str(folder / "notes.txt"), "has an unknown ending; expected one of .wav, .flac for audio"),
        (f"{folder}/*.flac", "matches no file"),
        ("pictures", "is neither a folder, a file nor audio of the catalogue"),
    ):
        with pytest.raises(InputError, match=words):
            open_audio(what)
