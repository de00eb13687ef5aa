"""Small random models with real fast tokenizers, made in the tests: seeded, some ten thousand weights each."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

FAMILIES = ("bert", "roberta", "gpt2", "llama")
POSITIONS = 64  # tokens that every small model takes

_COMMON = "the of and to in a is that it was for on with as by at from this his which".split()
_RARE = (
    "mountain surveyor telescope angle triangle country distance measure station signal river valley ridge summit "
    "instrument observer horizon meridian bearing traverse naïve façade coöperate Übermut 東京 측량 🙂 don't it's "
    "1,024 3.14 half-way re-measured (again) quickly slower highest under over unbelievable internationally"
).split()


def sentences(count: int, seed: int = 0, longest: int = 24) -> list[str]:
    """Return sentences of common and rare words, the same ones every time."""
    rng = random.Random(seed)
    written = []
    for _ in range(count):
        length = rng.randint(3, longest)
        words = [rng.choice(_COMMON if rng.random() < 0.6 else _RARE) for _ in range(length)]
        written.append(" ".join(words).capitalize() + rng.choice([".", "!", "?", " ..."]))
    return written


def make(family: str, folder: Path, *, seed: int = 0) -> Path:
    """Save a model of this family and its tokenizer into the folder."""
    tokenizer = TOKENIZERS[family]()
    torch.manual_seed(seed)
    model = MODELS[family](len(tokenizer)).eval()
    save(model, tokenizer, folder)
    return folder


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save both as a user would."""
    _quietly()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def load(folder: Path) -> tuple[Any, Any]:
    """Load as transformers does, with nothing of ours in between."""
    from transformers import AutoModel, AutoTokenizer

    _quietly()
    return AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def _quietly() -> None:
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


@dataclass(frozen=True)
class Facts:
    """What a test knows of a family by reading its paper, not by asking the code under test."""

    blocks: int
    dim: int
    final_norm: bool
    causal: bool
    before: tuple[str, ...]  # special tokens that open a window
    after: tuple[str, ...]  # and close it


FACTS = {
    "bert": Facts(3, 32, False, False, ("[CLS]",), ("[SEP]",)),
    "roberta": Facts(2, 24, False, False, ("<s>",), ("</s>",)),
    "gpt2": Facts(3, 32, True, True, (), ()),
    "llama": Facts(2, 48, True, True, ("<s>",), ()),
}


BLOCKS = {"bert": "encoder.layer", "roberta": "encoder.layer", "gpt2": "h", "llama": "layers"}


def blocks_of(model: Any, family: str) -> Any:
    """Return the list of blocks, by its name in transformers."""
    return model.get_submodule(BLOCKS[family])


def _wordpiece() -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    # The library's WordPiece trainer gives another vocabulary every time; this one is the same.
    characters = sorted(set("".join(sentences(400, seed=1)).lower().replace("ï", "i").replace("ü", "u")) - {" "})
    pieces = [*characters, *(f"##{c}" for c in characters), *_COMMON]
    pieces += (
        "mountain river survey ##or ##ing ##ally inter ##national un ##believ ##able measure ##d angle".split()
    )
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys([*specials, *pieces]))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.decoder = decoders.WordPiece()
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=POSITIONS, **names)


def _byte_level(specials: list[str], wrap: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=380,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences(400, seed=2), trainer)
    tokenizer.decoder = decoders.ByteLevel()
    if wrap:
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def _roberta_tokenizer() -> Any:
    from transformers import PreTrainedTokenizerFast

    names = {"bos": "<s>", "cls": "<s>", "pad": "<pad>", "eos": "</s>", "sep": "</s>", "unk": "<unk>"}
    return PreTrainedTokenizerFast(
        tokenizer_object=_byte_level(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], wrap=True),
        model_max_length=POSITIONS,
        mask_token="<mask>",
        **{f"{name}_token": token for name, token in names.items()},
    )


def _gpt2_tokenizer() -> Any:
    from transformers import PreTrainedTokenizerFast

    end = "<|endoftext|>"
    return PreTrainedTokenizerFast(
        tokenizer_object=_byte_level([end], wrap=False), eos_token=end, bos_token=end, unk_token=end
    )


def _metaspace() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        sentences(400, seed=3),
        trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False),
    )
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def _bert(vocabulary: int) -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        initializer_range=0.3,
    )
    return BertModel(config, add_pooling_layer=False)


def _roberta(vocabulary: int) -> Any:
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=vocabulary,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=48,
        max_position_embeddings=POSITIONS + 2,
        type_vocab_size=1,
        pad_token_id=1,
        initializer_range=0.3,
    )
    return RobertaModel(config, add_pooling_layer=False)


def _gpt2(vocabulary: int) -> Any:
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(
        GPT2Config(
            vocab_size=vocabulary,
            n_embd=32,
            n_layer=3,
            n_head=4,
            n_positions=POSITIONS,
            bos_token_id=0,
            eos_token_id=0,
            initializer_range=0.3,
        )
    )


def _llama(vocabulary: int) -> Any:
    from transformers import LlamaConfig, LlamaModel

    return LlamaModel(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=96,
            max_position_embeddings=POSITIONS,
            initializer_range=0.3,
        )
    )


TOKENIZERS = {"bert": _wordpiece, "roberta": _roberta_tokenizer, "gpt2": _gpt2_tokenizer, "llama": _metaspace}
MODELS = {"bert": _bert, "roberta": _roberta, "gpt2": _gpt2, "llama": _llama}
