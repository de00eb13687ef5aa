"""The Trainer of sentence-transformers: token states with the callback, sentence vectors with a probe.

pip install sentence-transformers
python examples/training/sentence_transformers_trainer.py --out series
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tiny import TEXTS
from transformers import BertConfig, BertModel, ByT5Tokenizer

from theodolite.integrations import GeometryCallback, SentenceProbe

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=6)
given = parser.parse_args()

torch.manual_seed(0)
with TemporaryDirectory() as folder:
    tokenizer = ByT5Tokenizer(extra_ids=0, model_max_length=128)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(tokenizer), **shape)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    transformer = Transformer(folder)
    model = SentenceTransformer(modules=[transformer, Pooling(32)], device="cpu")
    pairs = Dataset.from_dict({"anchor": TEXTS, "positive": TEXTS[1:] + TEXTS[:1]})
    arguments = SentenceTransformerTrainingArguments(
        output_dir=folder, max_steps=given.steps, per_device_train_batch_size=4, report_to="none", use_cpu=True,
        save_strategy="no", disable_tqdm=True, logging_steps=2,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(
        model, arguments, train_dataset=pairs, loss=MultipleNegativesRankingLoss(model)
    )
    callback = GeometryCallback(
        TEXTS, tokenizer, every=2, share=None, out=Path(given.out) / "tokens", overwrite=True
    )
    callback.attach(trainer)
    sentences = SentenceProbe(TEXTS, out=Path(given.out) / "sentences", overwrite=True)
    sentences.measure(model, 0)
    trainer.train()
    print(sentences.measure(model, given.steps))
