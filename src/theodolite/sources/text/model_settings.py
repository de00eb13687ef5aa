"""What makes the numbers beside the weights: the settings of a model, of its tokenizer and of its processor."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

VOLATILE = {
    "_name_or_path",
    "architectures",
    "auto_map",
    "dtype",
    "padding",
    "torch_dtype",
    "transformers_version",
    "truncation",
    "use_cache",
}
"""Keys that tell who saved the files and how, or what a survey sets by itself."""


def settings_sha256(model: Path, tokenizer: Path | None = None) -> str:
    """Return the sha256 of what the files of settings say, however they are written."""
    beside = tokenizer or model
    spelled = "tokenizer.json" if (beside / "tokenizer.json").is_file() else "tokenizer_config.json"
    digest = sha256()
    for path in (model / "config.json", beside / spelled, model / "preprocessor_config.json"):
        if path.is_file():
            digest.update(f"{path.name} {_said(path)}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _said(path: Path) -> str:
    """Return a file of settings without what is volatile, its keys in order; what is no JSON as a digest."""
    try:
        told = json.loads(path.read_bytes())
    except ValueError:
        return sha256(path.read_bytes()).hexdigest()
    if isinstance(told, dict):
        told = {name: value for name, value in told.items() if name not in VOLATILE}
    return json.dumps(told, sort_keys=True)
