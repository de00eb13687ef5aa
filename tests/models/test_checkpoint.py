"""From a model's name to a loaded model: folders, the hub's cache, and the errors if there is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from theodolite.errors import InputError, TheodoliteError
from theodolite.models.checkpoint import load_model, load_tokenizer, resolve, weights_sha256

REVISION = "0123456789abcdef0123456789abcdef01234567"

ASK = """
import json, sys
from theodolite.errors import TheodoliteError
from theodolite.surveys.api import survey
said = {}
for name in sys.argv[1:]:
    try:
        found = survey(name, ["the river was high", "the angle is a measure of it"], populations=("all",))
        said[name] = {"model": found.facts["model"], "rows": len(found.layers)}
    except TheodoliteError as error:
        said[name] = {"error": str(error), "class": type(error).__name__}
print(json.dumps(said))
"""


class CallsWhenRead:
    """Pickled as a call of a function, which is what makes pickles unsafe."""

    def __reduce__(self) -> Any:
        return os.getcwd, ()


@pytest.fixture(scope="module")
def asked(small_model: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Survey by hub names in a separate process, offline, over a cache laid out as huggingface_hub does."""
    cache = tmp_path_factory.mktemp("hub")
    repository = cache / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(REVISION)
    snapshot = repository / "snapshots" / REVISION
    snapshot.parent.mkdir()
    shutil.copytree(small_model("bert"), snapshot)
    environment = {
        **os.environ,
        "HF_HUB_CACHE": str(cache),
        "HF_HUB_OFFLINE": "1",
        "THEODOLITE_CACHE": str(cache / "catalogue"),
    }
    names = ["org/tiny", "org/unknown", "minilm-l7", "not a name"]
    done = subprocess.run(
        [sys.executable, "-c", ASK, *names], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.mark.slow
class TestHub:
    def test_a_cached_model_is_surveyed_by_its_name(self, asked: dict[str, Any], small_model: Any) -> None:
        model = asked["org/tiny"]["model"]
        assert model["name"] == "org/tiny"
        assert model["revision"] == REVISION
        assert model["sha256"] == weights_sha256(small_model("bert"))
        assert asked["org/tiny"]["rows"] == 4

    def test_an_unknown_name_offline_is_reported_in_one_sentence(self, asked: dict[str, Any]) -> None:
        said = asked["org/unknown"]
        assert said["class"] == "OfflineError"
        assert said["error"].startswith(
            "model 'org/unknown' is neither a catalogue name, a folder nor a .gguf file, and the model hub could "
            "not be reached."
        )
        assert "Traceback" not in said["error"]
        assert "\n" not in said["error"]

    def test_a_similar_name_of_the_catalogue_is_suggested(self, asked: dict[str, Any]) -> None:
        assert "Did you mean 'minilm-l6'?" in asked["minilm-l7"]["error"]

    def test_an_invalid_name_is_reported(self, asked: dict[str, Any]) -> None:
        assert asked["not a name"]["class"] == "InputError"
        assert "'not a name' is neither a catalogue name (minilm-l6," in asked["not a name"]["error"]


class TestFolders:
    def test_a_folder_is_hashed_by_its_weights(self, small_model: Any, tmp_path: Path) -> None:
        folder = small_model("gpt2")
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        assert resolve(str(copy)).sha256 == resolve(str(folder)).sha256
        weights = copy / "model.safetensors"
        data = bytearray(weights.read_bytes())
        data[-1] ^= 1
        weights.write_bytes(data)
        assert resolve(str(copy)).sha256 != resolve(str(folder)).sha256

    def test_without_a_configuration(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"is a folder without config.json; give a folder written by"):
            resolve(str(tmp_path))

    def test_without_weights(self, small_model: Any, tmp_path: Path) -> None:
        shutil.copy(small_model("bert") / "config.json", tmp_path)
        with pytest.raises(
            InputError, match=r"contains no weights: expected model.safetensors or pytorch_model.bin"
        ):
            resolve(str(tmp_path))

    @pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "some/deep/path"])
    def test_a_missing_folder(self, name: str) -> None:
        with pytest.raises(InputError, match="there is no such folder"):
            resolve(name)

    def test_a_missing_gguf_file(self) -> None:
        with pytest.raises(InputError, match=r"'nowhere.gguf': there is no such file"):
            resolve("nowhere.gguf")

    @pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
    def test_without_a_tokenizer(self, small_model: Any, tmp_path: Path, family: str) -> None:
        # transformers 5 makes one with special tokens only, to which every word is unknown.
        for name in ("config.json", "model.safetensors"):
            shutil.copy(small_model(family) / name, tmp_path)
        with pytest.raises(InputError, match=r"has no vocabulary: expected tokenizer.json"):
            load_tokenizer(resolve(str(tmp_path)))

    def test_with_weights_missing(self, small_model: Any, tmp_path: Path) -> None:
        # transformers fills them with random numbers, and the survey would be of those.
        from safetensors.torch import load_file, save_file

        shutil.copytree(small_model("gpt2"), tmp_path, dirs_exist_ok=True)
        tensors = load_file(tmp_path / "model.safetensors")
        renamed = {name.replace("h.1.mlp", "h.1.other"): tensor for name, tensor in tensors.items()}
        save_file(renamed, tmp_path / "model.safetensors", {"format": "pt"})
        with pytest.raises(TheodoliteError, match=r"lack 4 tensors of the model \(the first is h.1.mlp.c_fc.bias"):
            load_model(resolve(str(tmp_path)), dtype="float32", device="cpu")

    @pytest.mark.parametrize("content", ["code", "text"])
    def test_with_a_pickle_that_cannot_be_read_safely(
        self, small_model: Any, tmp_path: Path, content: str
    ) -> None:
        import torch

        shutil.copytree(small_model("bert"), tmp_path, dirs_exist_ok=True)
        (tmp_path / "model.safetensors").unlink()
        if content == "code":
            torch.save({"weights": CallsWhenRead()}, tmp_path / "pytorch_model.bin")
        else:
            (tmp_path / "pytorch_model.bin").write_text("version https://git-lfs.github.com/spec/v1")
        with pytest.raises(TheodoliteError) as raised:
            load_model(resolve(str(tmp_path)), dtype="float32", device="cpu")
        assert "a pickle that cannot be read safely: it is damaged, or reading it would run code" in str(
            raised.value
        )
        assert "\n" not in str(raised.value)

    def test_with_weights_of_other_sizes(self, small_model: Any, tmp_path: Path) -> None:
        shutil.copytree(small_model("gpt2"), tmp_path, dirs_exist_ok=True)
        settings = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(settings | {"n_embd": 64}))
        with pytest.raises(
            TheodoliteError,
            match=r"do not fit its config.json: \d+ tensors of another size \(the first is h.0.attn.c_attn.bias: "
            r"\(96,\) in the file, \(192,\) by config.json\)",
        ):
            load_model(resolve(str(tmp_path)), dtype="float32", device="cpu")

    def test_a_revision_of_what_has_none_is_rejected(self, small_model: Any, tmp_path: Path) -> None:
        # It would stand in survey.json as if it had been checked.
        with pytest.raises(
            InputError, match=r"--revision 'v2' applies to models of the hub, and MODEL .* is a fol"
        ):
            resolve(str(small_model("bert")), revision="v2")
        (tmp_path / "a.gguf").write_bytes(b"")
        with pytest.raises(InputError, match=r"and MODEL .* is a file\. Omit --revision"):
            resolve(str(tmp_path / "a.gguf"), revision="v2")
        with pytest.raises(InputError, match=r"--revision 'v2': the catalogue has minilm-l6 [\d.]+ only"):
            resolve("minilm-l6", revision="v2")

    def test_with_damaged_weights(self, small_model: Any, tmp_path: Path) -> None:
        shutil.copytree(small_model("gpt2"), tmp_path, dirs_exist_ok=True)
        (tmp_path / "model.safetensors").write_bytes(b"not weights at all")
        with pytest.raises(TheodoliteError, match="could not be loaded"):
            load_model(resolve(str(tmp_path)), dtype="float32", device="cpu")

    def test_a_pooler_may_be_missing(self, small_model: Any) -> None:
        # The small BERT is saved without one, as any model trained on masked words is.
        assert (
            load_model(resolve(str(small_model("bert"))), dtype="float32", device="cpu").config.hidden_size == 32
        )

    def test_ready_to_run(self, small_model: Any) -> None:
        import torch

        model = load_model(resolve(str(small_model("llama"))), dtype="bfloat16", device="cpu")
        assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
        assert not any(parameter.requires_grad for parameter in model.parameters())
        assert not model.training
        assert not model.config.use_cache

    def test_a_missing_device(self, small_model: Any) -> None:
        with pytest.raises(InputError, match="--device 'cuda:99' cannot be used on this machine"):
            load_model(resolve(str(small_model("bert"))), dtype="float32", device="cuda:99")


def test_a_file_that_is_no_model_is_rejected_without_asking_the_hub(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.npy"
    vectors.write_bytes(b"")
    with pytest.raises(
        InputError, match=r"vectors.npy' is a file, but only \.gguf files are .* `theodolite measure`"
    ):
        resolve(str(vectors))
