"""The weight files of a model: which there are, their sha256, and the precision of their numbers."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from theodolite.errors import InputError

DTYPES = ("auto", "float32", "bfloat16", "float16")
STORED_DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16", "F64": "float32"}
"""Names of floating-point types in safetensors, and the precision of a survey for each."""
HASHING_THREADS = 8
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")  # in the order in which transformers prefers them


def check_weights(folder: Path) -> list[Path]:
    """Return the weight files of a folder; reject a folder without any."""
    for pattern in WEIGHTS:
        files = sorted(folder.glob(pattern))
        if files:
            return files
    raise InputError(
        f"{folder} contains no weights: expected model.safetensors or pytorch_model.bin beside config.json."
    )


def weights_sha256(folder: Path) -> str:
    """Return the sha256 of the weight file of a folder, or of the digests of several, read in parallel."""
    return join_digests(check_weights(folder))


def join_digests(files: list[Path]) -> str:
    """Return the sha256 of a file, or of the digests of several."""
    with ThreadPoolExecutor(HASHING_THREADS, "hashing") as pool:
        digests = list(pool.map(_file_sha256, files))
    return digests[0] if len(digests) == 1 else sha256("\n".join(digests).encode()).hexdigest()


def _file_sha256(file: Path) -> str:
    """Return the sha256 of a file; in the cache of the hub, a large file is a link to a file of that name."""
    real = file.resolve()
    if file.is_symlink() and real.parent.name == "blobs" and re.fullmatch("[0-9a-f]{64}", real.name):
        return real.name
    digest = sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 24):
            digest.update(block)
    return digest.hexdigest()


def choose_dtype(dtype: str, folder: Path, device: str) -> str:
    """Return the precision that "auto" means: the checkpoint's own on a GPU, float32 on a CPU."""
    if dtype != "auto":
        return dtype
    return _own_dtype(folder) if device.partition(":")[0] == "cuda" else "float32"


def _own_dtype(folder: Path) -> str:
    """Return the precision that config.json states or the first floating-point weight has; else float32."""
    try:
        settings = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        settings = {}
    parts = [settings, settings.get("text_config")] if isinstance(settings, dict) else []
    stated = [part.get(name) for part in parts if isinstance(part, dict) for name in ("dtype", "torch_dtype")]
    named = next((str(name).removeprefix("torch.") for name in stated if name), None) or _stored_dtype(folder)
    return named if named in DTYPES[1:] else "float32"


def _stored_dtype(folder: Path) -> str | None:
    """Return the precision of the first floating-point tensor of a safetensors file."""
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        kinds = (STORED_DTYPES.get(entry.get("dtype")) for entry in header.values())
        if (found := next(filter(None, kinds), None)) is not None:
            return found
    return None
