"""Is the recall that `theodolite store` reports that of FAISS? Word vectors, and sentence vectors of minilm-l6.

    python -m benchmarks.store_recall                         # 400,000 word vectors of 50 coordinates
    python -m benchmarks.store_recall --vectors sentences     # messages of small talk, 384 coordinates

1,000 rows chosen by hash are the queries, as in the command. FAISS's flat index gives the truth; its SQ8 and PQ
indexes, trained on the same rows, give the recall to compare with.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from theodolite.stores.cost import QUERY_COUNT, TRAINING_ROWS, measure_cost, prepare_fit, scan_for_transforms
from theodolite.stores.reader import ArrayReader
from theodolite.stores.reading import open_store
from theodolite.stores.recall import recall_at
from theodolite.stores.search import search
from theodolite.stores.transforms import fit_transform

PLACES = (1, 10, 100)


def embed_sentences(count: int, batch_size: int = 50) -> NDArray[np.float32]:
    """Return vectors of the first different messages of small talk, made with minilm-l6: (count, 384)."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from theodolite.corpora.catalogue.lookup import model_folder
    from theodolite.corpora.text_corpus import open_corpus

    lines = (line for _, text in open_corpus("chitchat").documents() for line in text.splitlines())
    # The model ignores case. Equal vectors are one result for us and several for FAISS.
    texts = list(dict.fromkeys(line.strip().casefold() for line in lines if line.strip()))[:count]
    folder = model_folder("minilm-l6")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    parts = []
    for first in range(0, len(texts), batch_size):
        batch = tokenizer(
            texts[first : first + batch_size], padding=True, truncation=True, max_length=64, return_tensors="pt"
        )
        with torch.no_grad():
            hidden, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
        parts.append(((hidden * mask).sum(1) / mask.sum(1)).numpy())
    return np.concatenate(parts)


def compare(vectors: NDArray[np.float32], metric: str, codes: list[int]) -> list[dict[str, Any]]:
    """Return the recall of each index as reported and by FAISS; first the share of equal rows of flat search."""
    import faiss

    reader, dim = ArrayReader(vectors, name="vectors", digest="0"), vectors.shape[1]
    scan = scan_for_transforms(reader, metric, QUERY_COUNT + TRAINING_ROWS)
    first = prepare_fit(scan, metric, QUERY_COUNT, TRAINING_ROWS)
    names = {"int8": "SQ8", **{f"pq:{number}": f"PQ{number}" for number in codes}}
    table = measure_cost(reader, first.queries, scan=scan, metric=metric, transforms=list(names)).tables["cost"]
    kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    x, queries = vectors, first.queries
    if metric == "cosine":
        x, queries = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, queries))
    flat = faiss.IndexFlat(dim, kind)
    flat.add(x)
    truth = flat.search(queries, max(PLACES))[1]
    mine = search(reader, first.queries, max(PLACES), metric).rows
    found = [{"index": "Flat", **{f"same_{k}": recall_at(truth, mine, k).mean() for k in PLACES}}]
    for name, factory in names.items():
        index = faiss.clone_index(fit_transform(name, first.moments, first.training, metric).codec)
        index.add(x)
        rows = index.search(queries, max(PLACES))[1]
        reported = table.set_index("transform").loc[name]
        row: dict[str, Any] = {"index": factory}
        for k in PLACES:
            row[f"ours_{k}"] = reported[f"recall_{k}"]
            row[f"half_width_{k}"] = (reported[f"recall_{k}_high"] - reported[f"recall_{k}_low"]) / 2
            row[f"faiss_{k}"] = recall_at(truth, rows, k).mean()
        found.append(row)
    return [
        {key: value if isinstance(value, str) else round(float(value), 4) for key, value in row.items()}
        for row in found
    ]


def main() -> None:
    """Print a line of JSON for each metric and index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", choices=["words", "sentences"], default="words")
    parser.add_argument("--count", type=int, default=400_000, help="the most vectors to use")
    parser.add_argument("--metric", nargs="+", default=["cosine", "euclidean"])
    chosen = parser.parse_args()
    if chosen.vectors == "words":
        vectors = np.concatenate([block.vectors for block in open_store("glove-6b-50d").blocks()])[: chosen.count]
    else:
        vectors = embed_sentences(chosen.count)
    for metric in chosen.metric:
        for row in compare(
            vectors.astype(np.float32), metric, [10, 25] if chosen.vectors == "words" else [48, 96]
        ):
            print(json.dumps({"vectors": len(vectors), "metric": metric, **row}), flush=True)


if __name__ == "__main__":
    main()
