"""Files that a page assumes in the reader's folder: a model, texts, vectors and the sources."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from tests.docs.pages import ROOT
from tests.small_models import sentences


def furnish(folder: Path, model: Path) -> None:
    """Put stand-ins into a folder: a small model under two names, one text per format, vectors with labels.

    A folder called as a model of the hub is taken for it, so that no hub is asked.
    """
    for name in ("src", "gallery", "examples"):
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    for name in ("my-model", "bert-base-uncased"):
        shutil.copytree(model, folder / name)
    _texts(folder)
    _vectors(folder)


def _texts(folder: Path) -> None:
    texts = sentences(40)
    (folder / "books.txt").write_text("\n".join(texts) + "\n", "utf-8")
    pd.DataFrame({"text": texts}).to_parquet(folder / "big.parquet")
    (folder / "texts").mkdir()
    for part in range(2):
        with gzip.open(folder / "texts" / f"{part}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps({"body": text}) + "\n" for text in texts[part::2])


def _vectors(folder: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(120, 8)).astype(np.float32)
    np.save(folder / "embeddings.npy", vectors)
    labels = np.array(["a", "b"])[np.arange(len(vectors)) % 2]
    pd.DataFrame({"vector": list(vectors), "label": labels}).to_parquet(folder / "embeddings.parquet")
