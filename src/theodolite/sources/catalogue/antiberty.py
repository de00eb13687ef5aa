"""AntiBERTy's pickle as a plain BERT with its masked-residue head.

The published model carries three small classifiers besides (species, chain, graft); they are left out, being no
part of the encoder; so are `position_ids`, which transformers counts out itself, and the head's output matrix,
which is the embedding matrix over again. The pooler stays.
"""

import json
from pathlib import Path

from theodolite.sources.catalogue.archive import copy_members
from theodolite.sources.catalogue.cache import Facts

CHECKPOINT = "AntiBERTy_md_smooth"
_LEFT_OUT = (
    "cls.species.",
    "cls.chain.",
    "cls.graft.",
    "cls.predictions.decoder.",
    "bert.embeddings.position_ids",
)


def unpack_antiberty(archive: Path, member: str, made: Path) -> Facts:
    """Write config, safetensors and a tokenizer that keeps capital letters; `member` is "folder/*"."""
    inside = member.removesuffix("*")
    pickle = archive.parent / "pytorch_model.bin"
    copy_members(
        archive,
        {
            f"{inside}{CHECKPOINT}/pytorch_model.bin": pickle,
            f"{inside}{CHECKPOINT}/config.json": made / "config.json",
            f"{inside}vocab.txt": made / "vocab.txt",
        },
    )
    _write_model(pickle, made)
    _write_tokenizer(made)
    return {}


def _write_model(pickle: Path, made: Path) -> None:
    import torch
    from safetensors.torch import save_file

    weights = torch.load(pickle, weights_only=True, map_location="cpu")
    kept = {name: weight.contiguous() for name, weight in weights.items() if not name.startswith(_LEFT_OUT)}
    save_file(kept, made / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((made / "config.json").read_text("utf-8"))
    config["architectures"] = ["BertForMaskedLM"]
    del config["_name_or_path"]
    (made / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _write_tokenizer(made: Path) -> None:
    """Say that case matters: a lower-cased residue is in no vocabulary and would become [UNK]."""
    from transformers import AutoTokenizer

    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "model_max_length": 512}
    (made / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    AutoTokenizer.from_pretrained(str(made), local_files_only=True).save_pretrained(str(made))
