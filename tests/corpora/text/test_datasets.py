"""A dataset of the datasets library as a corpus, from local folders and from a fake hub."""

import importlib.util
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from theodolite.corpora import hf_datasets
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.scan import scan
from theodolite.corpora.shards import shard_documents
from theodolite.corpora.text_corpus import open_corpus
from theodolite.errors import InputError, OfflineError, TheodoliteError

TEXTS = ["one", None, "two words", " ", *(f"text {number}" for number in range(400))]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one folder of Parquet files, one of plain text, and what save_to_disk leaves."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    root = tmp_path_factory.mktemp("datasets")
    rows = datasets.Dataset.from_dict({"text": TEXTS, "label": list(range(len(TEXTS)))})
    for name, part in (("train", rows), ("test", rows.select([0]))):
        (root / "parquet").mkdir(exist_ok=True)
        part.to_parquet(root / "parquet" / f"{name}.parquet")
    (root / "plain").mkdir()
    (root / "plain" / "train.txt").write_text("one\ntwo words\n", encoding="utf-8")
    rows.save_to_disk(root / "saved")
    datasets.DatasetDict({"train": rows, "test": rows.select([0])}).save_to_disk(root / "splits")
    return root


@pytest.mark.parametrize("name", "parquet:train parquet:default:train parquet::train saved splits:train".split())
def test_every_container_gives_the_same_documents(held: Path, name: str) -> None:
    opened = open_corpus(f"hf:{held}/{name}")
    found, plain = scan(opened), scan(open_corpus([text or "" for text in TEXTS]))
    assert (found.sha256, found.documents, found.pilot) == (plain.sha256, 402, plain.pilot)
    assert scan(pickle.loads(pickle.dumps(opened))).sha256 == found.sha256


def test_read_again_by_shards_and_filtered(held: Path) -> None:
    opened = open_corpus(f"hf:{held}/parquet:train", CorpusOptions(min_words=2, limit=300))
    shards = scan(opened, shard_chars=500).shards
    assert len(shards) > 3
    again = [document for _, documents in shard_documents(opened, shards) for document in documents]
    assert again == list(opened.documents())
    assert again[:2] == [(1, "two words"), (2, "text 0")]


def test_the_only_split_needs_no_name(held: Path) -> None:
    assert list(open_corpus(f"hf:{held}/plain").documents()) == [(0, "one"), (1, "two words")]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("parquet", "requires a split (choices: train, test; got none)"),
        ("parquet:tst", "got 'tst'); give hf:NAME[@REVISION][:CONFIG][:SPLIT]. Did you mean 'test'?"),
        ("parquet:other:test", "requires a config (choices: default; got 'other')"),
        ("saved:train", "requires a split (choices: none; got 'train')"),
        ("a:b:c:d", "is not of the form hf:NAME[@REVISION][:CONFIG][:SPLIT]"),
    ],
)
def test_missing_input_is_reported(held: Path, name: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        open_corpus(f"hf:{held}/{name}")
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["parquet:test", "saved"])
def test_a_wrong_column_is_reported_at_once(held: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"has no column 'txt' \(its columns: 'text', 'label'\).*mean 'text'"):
        open_corpus(f"hf:{held}/{name}", CorpusOptions(column="txt"))
    with pytest.raises(InputError, match=r"--column 'label' requires strings, but .* holds values of type int"):
        open_corpus(f"hf:{held}/{name}", CorpusOptions(column="label"))


def test_an_empty_folder_and_a_damaged_file_are_reported(held: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "train.parquet").write_bytes(b"no parquet")
    for name in ("empty", "bad"):
        with pytest.raises(InputError, match="could not be read by the datasets library"):
            open_corpus(f"hf:{tmp_path}/{name}")


def test_the_missing_library_error_gives_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TheodoliteError, match=r"pip install 'theodolite\[datasets\]'"):
        open_corpus("hf:org/name")


def hub(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[tuple[str, str | None]]:
    """Install a fake hub that answers with a commit or an error; return its requests."""
    asked: list[tuple[str, str | None]] = []

    class Api:
        def dataset_info(self, path: str, revision: str | None = None) -> SimpleNamespace:
            asked.append((path, revision))
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(sha=answer)

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    return asked


def test_a_name_on_the_hub_is_pinned_to_a_commit(held: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked, loaded = hub(monkeypatch, "c0ffee"), list[tuple[Any, ...]]()
    rows = datasets.load_dataset(str(held / "parquet"), split="train", streaming=True)

    def load(path: str, config: str, *, split: str, revision: str, streaming: bool) -> Any:
        loaded.append((path, config, split, revision, streaming))
        return rows

    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda path, revision: ["plain_text"])
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda path, config, revision: ["train", "test"])
    monkeypatch.setattr(datasets, "load_dataset", load)
    opened = open_corpus("hf:org/name@main:train")
    assert opened.dataset == hf_datasets.DatasetName("org/name", "plain_text", "train", "c0ffee")
    assert scan(opened).documents == 402
    assert asked == [("org/name", "main")]
    assert set(loaded) == {("org/name", "plain_text", "train", "c0ffee", True)}


def test_no_connection_and_an_unknown_dataset_are_distinguished(
    held: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub(monkeypatch, OSError("no route"))
    with pytest.raises(OfflineError, match=r"the hub could not be reached \(no route\); give a folder"):
        open_corpus("hf:org/name")
    hub(monkeypatch, ValueError("Repo id must be in the form"))
    with pytest.raises(InputError, match="the hub has no such dataset"):
        open_corpus("hf:org/name")
