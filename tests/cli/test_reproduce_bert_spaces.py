"""theodolite reproduce bert-spaces: as in the thesis by default, and every option is used or named as unused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.listeners import RecordingListener
from tests.small_models import sentences

from theodolite import samples
from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.exhibits.registry import all_exhibits
from theodolite.reproduction import laboratories
from theodolite.reproduction import reproduce as module
from theodolite.reproduction.laboratories import Materials, thesis_pooling
from theodolite.studies.clouds.clouds import clouds
from theodolite.studies.laboratory import open_laboratory

PAPER = "bert-spaces"
OPTIONS = {"limit": 25, "max_tokens": 20, "seed": 7, "layers": "1,-1", "device": "cpu", "dtype": "float32"}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Inputs of a user, one per laboratory."""
    texts = sentences(24, seed=3, longest=8)
    pairs = {name: [texts[i : i + 2] for i in range(start, start + 8, 2)] for name, start in (("a", 0), ("b", 8))}
    (tmp_path / "pairs.json").write_text(json.dumps(pairs), encoding="utf-8")
    (tmp_path / "groups.json").write_text(json.dumps({"x": texts[:4], "y": texts[4:8]}), encoding="utf-8")
    (tmp_path / "sentences.txt").write_text("the river was\nthe mountain was\n", encoding="utf-8")
    words = [f"{word},{label}" for label, listed in WORDS.items() for word in listed.split()]
    (tmp_path / "words.csv").write_text("\n".join(["word,label", *words]), encoding="utf-8")
    return {name: tmp_path / f"{name}.{end}" for name, end in ENDINGS.items()}


WORDS = {"common": "the of and to in a is", "rare": "river mountain survey measure angle inter un"}
ENDINGS = {"pairs": "json", "groups": "json", "sentences": "txt", "words": "csv"}


@pytest.fixture
def run(
    small_model: Callable[[str], Path], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, dict[str, Any]]]:
    """Run the laboratories that read text, and return their facts; one exhibit each is drawn."""
    other = tmp_path / "other.txt"
    other.write_text("\n".join(sentences(60, seed=9, longest=12)), encoding="utf-8")
    kept = {name: all_exhibits()[f"{PAPER}/{name}"] for name in ("table1", "fig22", "fig23", "table7", "fig26")}
    monkeypatch.setattr(module, "all_exhibits", lambda: kept)
    monkeypatch.setitem(clouds.__kwdefaults__, "projections", "pca")  # others are tested elsewhere

    def reproduce(**given: Any) -> dict[str, dict[str, Any]]:
        out = tmp_path / "out"
        model = str(small_model("bert"))
        module.reproduce(PAPER, [model], str(corpus), out, against=str(other), **given)
        return {
            (facts := open_laboratory(folder).facts)["laboratory"]: facts
            for folder in (out / "laboratories").iterdir()
        }

    return reproduce


@pytest.mark.slow
def test_files_and_options_are_used(run: Callable[..., Any], files: dict[str, Path]) -> None:
    listener = RecordingListener()
    found = run(files=files, options=OPTIONS | {"sample": 0.5, "field": "text"}, listener=listener)
    assert found["probe"]["settings"]["words"]["name"] == "words.csv"
    assert found["trace"]["settings"]["sentences"] == ["the river was", "the mountain was"]
    assert found["groups"]["settings"]["file"] == str(files["groups"])
    assert found["contrast"]["corpus"]["name"] == "pairs.json"
    for name in ("groups", "contrast", "clouds"):  # as in the thesis
        assert found[name]["settings"]["pooling"] == "cls", name
        assert found[name]["settings"]["seed"] == 7
        assert [layer["index"] for layer in found[name]["layers"]] == [1, 3]
    assert [layer["index"] for layer in found["trace"]["layers"]] == [1, 3]
    settings = found["clouds"]["settings"]
    assert (settings["limit"], settings["max_tokens"]) == (25, 20)
    assert "--sample: no effect on bert-spaces, which has no surveys." in listener.warned


@pytest.mark.slow
def test_a_changed_file_is_read_again(run: Callable[..., Any], files: dict[str, Path]) -> None:
    run(files=files, options=OPTIONS)
    files["sentences"].write_text("the river was\nthe angle was\n", encoding="utf-8")
    assert run(files=files, options=OPTIONS)["trace"]["settings"]["sentences"][1] == "the angle was"


def test_the_probe_is_of_parts_of_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    from theodolite.studies.probe import probe

    given: dict[str, Any] = {}
    monkeypatch.setattr(probe, "probe", lambda model, words, **options: given.update(words=words, **options))
    laboratories.EXPERIMENTS["probe"]("model", Materials(dtype="bfloat16", device="cuda", seed=3), Listener())
    assert given["words"] == samples.path("parts-of-speech.csv")
    assert (given["dtype"], given["device"], given["seed"]) == ("bfloat16", "cuda", 3)


def test_models_without_a_classification_token_are_pooled_by_mean(small_model: Callable[[str], Path]) -> None:
    assert thesis_pooling(str(small_model("bert"))) == "cls"
    assert thesis_pooling(str(small_model("gpt2"))) == "mean"


def test_files_without_effect_are_rejected(
    small_model: Callable[[str], Path], corpus: Path, tmp_path: Path, files: dict[str, Path]
) -> None:
    model = str(small_model("bert"))
    with pytest.raises(InputError, match=r"--pairs .* is not used by norm-variance"):
        module.reproduce("norm-variance", [model], str(corpus), tmp_path / "x", files={"pairs": files["pairs"]})
    with pytest.raises(InputError, match=r"--words .*none\.csv does not exist"):
        module.reproduce(PAPER, [model], str(corpus), tmp_path / "x", files={"words": tmp_path / "none.csv"})
    assert not (tmp_path / "x").exists()
