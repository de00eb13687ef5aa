"""Rewrite a GGUF file as a transformers folder, once: it loads in half a minute, the folder in one second."""

import copy
import importlib.util
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, TheodoliteError
from theodolite.sources.catalogue.archive import copy_members
from theodolite.sources.catalogue.bars import no_bars
from theodolite.sources.catalogue.cache import Facts, Progress, cache_root, make_once, silent
from theodolite.sources.catalogue.fetch import sha256_of


def gguf_folder(path: Path, progress: Progress | None = None) -> Path:
    """Return a folder that AutoModel and AutoTokenizer load, with the weights of this GGUF file in float32.

    It is kept in the cache by the file's sha256, so the same file under another name is not unpacked again.
    """
    say = progress or silent
    check_gguf(path)
    need_gguf()
    digest = sha256_of(path)

    def make(made: Path, work: Path) -> Facts:
        say(f"rewriting {path.name} as safetensors, once")
        rewrite_gguf(path, made)
        return {}

    return make_once(cache_root() / "gguf" / digest, digest, {"file": path.name}, make, say)


def unpack_gguf(archive: Path, member: str, made: Path) -> Facts:
    """Take the GGUF member out of the archive, rewrite it, and keep the rewritten folder only."""
    file = archive.parent / Path(member).name
    copy_members(archive, {member: file})
    rewrite_gguf(file, made)
    return {}


def check_gguf(path: Path) -> None:
    """Raise unless the file is there and starts as a GGUF file does."""
    if not path.is_file():
        raise InputError(f"There is no file {path}; wanted a .gguf file.")
    with path.open("rb") as file:
        start = file.read(4)
    if start != b"GGUF":
        raise InputError(
            f"{path} is no GGUF file: wanted one that starts with b'GGUF', this starts with {start!r}."
        )


def need_gguf() -> None:
    """Raise unless the packages that read GGUF are installed."""
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise TheodoliteError(f"Reading a GGUF file needs {' and '.join(missing)}: pip install 'theodolite[gguf]'")


def rewrite_gguf(file: Path, made: Path) -> None:
    """Write config, safetensors and tokenizer of the GGUF file into the folder.

    transformers marks a model read from GGUF as quantised and will not save it, though its weights are plain
    float32 by then; so the weights are handed to a fresh model of the same class, and that is saved.
    """
    with no_bars():
        try:
            model, tokenizer = _load(file)
        except MemoryError:
            raise
        except Exception as error:  # a damaged file makes the readers below fail in any way they like
            raise InputError(
                f"transformers cannot read {file.name}: {error}. Wanted a GGUF file of an architecture it knows; "
                "a newer transformers may, or give the model as a folder of safetensors."
            ) from error
        _plain(model).save_pretrained(str(made))
        tokenizer.save_pretrained(str(made))


def _plain(model: Any) -> Any:
    """Return a model of the same class and weights that does not count as quantised."""
    import torch

    config = copy.deepcopy(model.config)
    vars(config).pop("quantization_config", None)
    with torch.device("meta"):
        plain = type(model)(config)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    return plain


def _load(file: Path) -> tuple[Any, Any]:
    """Return (model, tokenizer); a decoder comes with its head, every weight is unpacked to float32."""
    import torch
    import transformers

    here: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    packing = {}
    if hasattr(transformers, "GgufConfig"):  # else weights may stay packed where a kernel can use them so
        packing["quantization_config"] = transformers.GgufConfig(dequantize=True)
    config = transformers.AutoConfig.from_pretrained(str(file.parent), **here)
    decodes = type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    auto = transformers.AutoModelForCausalLM if decodes else transformers.AutoModel
    model = auto.from_pretrained(str(file.parent), dtype=torch.float32, **here, **packing)
    return model, transformers.AutoTokenizer.from_pretrained(str(file.parent), **here)
