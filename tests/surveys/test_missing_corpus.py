"""A missing corpus is reported before Ray is started, with the message of a local survey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import pytest

from theodolite.corpora.file_search import is_missing
from theodolite.errors import InputError, TheodoliteError
from theodolite.surveys.api import survey

CLUSTER: dict[str, Any] = {"engine": "ray", "address": "local"}
FED = {"bert": "text", "wav2vec2": "speech", "vit": "vision", "resnet": "convolution"}


class StartedError(Exception):
    """Ray was started."""


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def connected(address: str) -> NoReturn:
        raise StartedError(address)

    monkeypatch.setattr("theodolite.engines.ray.connection.connect", connected)


@pytest.fixture
def no_fetching(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetched(*given: Any, **named: Any) -> NoReturn:
        pytest.fail("something was fetched")

    monkeypatch.setattr("theodolite.corpora.catalogue.lookup.download_entry", fetched)
    monkeypatch.setattr("huggingface_hub.snapshot_download", fetched)


@pytest.fixture
def model(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a model folder with a configuration; its weights are not read before the corpus."""
    folder = tmp_path / request.param
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": request.param}))
    (folder / "model.safetensors").write_bytes(b"")
    return folder


def error_message(model: str | Path, corpus: Any, **given: Any) -> str:
    with pytest.raises(TheodoliteError) as error:
        survey(model, corpus, **given)
    return str(error.value)


@pytest.mark.parametrize("model", FED, indirect=True)
@pytest.mark.parametrize(
    ("corpus", "settings"),
    [
        ("no-such-file.txt", {}),
        ("shakespear", {}),
        ("no/such/folder", {}),
        ("none-*.txt", {}),
        ("x" * 100 + "/y", {}),
        ("no-such-file.txt", {"target": "label"}),  # two errors: the same one is reported
        ("no-such-file.txt", {"min_words": 3}),
        ("no-such-file.txt", {"maps": "round"}),
        ("no-such-file.txt", {"max_seconds": 0.01}),
    ],
)
def test_a_missing_corpus_has_the_same_message_on_a_cluster(
    model: Path, corpus: str, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    local = error_message(model, corpus, out=tmp_path / "out", **settings)
    assert error_message(model, corpus, out=tmp_path / "out", **settings, **CLUSTER) == local
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_fetching")
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("minilm-l6", "is neither a file nor a corpus of the catalogue; give a file ending in one of .txt"),
        ("whisper-tiny-en", "is neither a folder, a file nor audio of the catalogue"),
        ("nobody/has-this", "is neither a file nor a corpus of the catalogue"),
        ("no-such.gguf", "is neither a file nor a corpus of the catalogue"),
    ],
)
def test_no_model_is_fetched_for_a_missing_corpus(model: str, words: str, tmp_path: Path) -> None:
    message = error_message(model, "no-such-corpus", out=tmp_path / "out", **CLUSTER)
    assert message.startswith("CORPUS 'no-such-corpus' ")
    assert words in message


def test_the_hub_cache_is_used_for_the_model_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "wav2vec2"}')
    asked = []

    def kept(name: str, file: str, *, revision: str | None) -> str:
        asked.append((name, file, revision))
        return str(tmp_path / file)

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", kept)
    message = error_message("org/model", "no-such-folder", out=tmp_path / "out", revision="v2", **CLUSTER)
    assert "nor audio of the catalogue" in message
    assert asked == [("org/model", "config.json", "v2")]


@pytest.mark.usefixtures("no_fetching")
@pytest.mark.parametrize(
    "corpus", ["there.txt", "th*.txt", "folder", "shakespeare", "hf:org/name", "list", "iterator"]
)
def test_a_corpus_that_may_exist_is_checked_later(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither read nor fetched: Ray is started first."""

    def opened(*given: Any, **named: Any) -> NoReturn:
        pytest.fail("the corpus was opened")

    monkeypatch.setattr("theodolite.surveys.validation.open_corpus", opened)
    monkeypatch.chdir(tmp_path)
    Path("there.txt").write_text("One.\n")
    Path("folder").mkdir()
    texts = iter(["One."])
    what: Any = {"list": ["One."], "iterator": texts}.get(corpus, corpus)
    with pytest.raises(StartedError, match="local"):
        survey("nobody/has-this", what, out=tmp_path / "out", **CLUSTER)
    assert list(texts) == ["One."]


def test_a_folder_matched_by_a_glob_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    (tmp_path / ".b.txt").write_text("hidden")
    assert is_missing(tmp_path / "*.txt")
    (tmp_path / "a.txt" / "c.txt").write_text("seen")
    assert not is_missing(str(tmp_path / "**" / "*.txt"))
    assert not is_missing("shakespeare")
    assert is_missing(Path("shakespeare"))  # a path, not a name
    assert is_missing("~/no/such/file.txt")
    assert is_missing("a text in place of its file. " * 500)


@pytest.mark.parametrize("model", ["bert"], indirect=True)
def test_the_address_is_reported_first(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--address lcoal: .* Did you mean 'local'\?"):
        survey(model, "no-such-file.txt", out=tmp_path / "out", engine="ray", address="lcoal")
