"""Perplexity of a decoder whose keys are rounded to 4 bits: as they are, centred, and scaled by coordinate too.

python -m benchmarks.key_quantization --model smollm2-135m --corpus chitchat --calibrate 20 --windows 12

Means and scales come from a survey of other documents of the corpus, as `theodolite export --to keys` writes them.
Keys are rounded before their rotation, as in caches that rotate when they read, or after it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import torch
from safetensors.torch import load_file
from torch import Tensor

from theodolite.corpora.text_corpus import open_corpus
from theodolite.models.checkpoint import load_model, load_tokenizer, resolve
from theodolite.studies.sample_export.export import export
from theodolite.surveys.api import survey

SCHEMES = {"plain": (), "centred": ("mean",), "scaled": ("mean", "scale")}


def quantize(keys: Tensor, bits: int, mean: Tensor | None = None, scale: Tensor | None = None) -> Tensor:
    """Round the keys of every head to `bits` with one step size per key. (..., heads, width)"""
    centre = torch.zeros(()) if mean is None else mean
    size = torch.ones(()) if scale is None else scale.clamp_min(1e-12)
    rest = (keys - centre) / size
    step = (rest.abs().amax(dim=-1, keepdim=True) / (2 ** (bits - 1) - 1)).clamp_min(1e-12)
    return (rest / step).round() * step * size + centre


@contextmanager
def rounded_keys(model: Any, statistics: dict[str, Tensor], scheme: str, place: str, bits: int) -> Iterator[None]:
    """Let the blocks of a Llama model use rounded keys, before or after rotation, in this context."""
    blocks = [block.self_attn for block in model.model.layers]

    def given(number: int) -> dict[str, Tensor]:
        name = f"block {number}/{'k' if place == 'before' else 'k-rotated'}"
        return {part: statistics[f"{name}.{part}"] for part in SCHEMES[scheme]}

    def hook(number: int) -> Callable[..., Tensor]:
        return lambda module, args, output: quantize(
            output.unflatten(-1, (-1, blocks[number - 1].head_dim)), bits, **given(number)
        ).flatten(-2)

    with ExitStack() as stack:
        if place == "before":
            for number, block in enumerate(blocks, start=1):
                stack.callback(block.k_proj.register_forward_hook(hook(number)).remove)
        else:
            stack.enter_context(_rounded_in_attention({id(b): n for n, b in enumerate(blocks, 1)}, given, bits))
        yield


@contextmanager
def _rounded_in_attention(
    numbers: dict[int, int], given: Callable[[int], dict[str, Tensor]], bits: int
) -> Iterator[None]:
    from transformers import AttentionInterface

    original = AttentionInterface()["sdpa"]

    def attend(module: Any, query: Tensor, key: Tensor, *rest: Any, **options: Any) -> Any:
        rounded = quantize(key.transpose(1, 2), bits, **given(numbers[id(module)])).transpose(1, 2)
        return original(module, query, rounded, *rest, **options)

    AttentionInterface.register("sdpa", attend)
    try:
        yield
    finally:
        AttentionInterface.register("sdpa", original)


@torch.no_grad()
def perplexity(model: Any, windows: Tensor) -> float:
    """Return exp of the mean negative log-likelihood of the tokens after the first of each window."""
    total = 0.0
    for window in windows:
        logits = model(input_ids=window[None]).logits[0, :-1].double()
        total += float(torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum"))
    return math.exp(total / (windows.shape[0] * (windows.shape[1] - 1)))


def main() -> None:
    """Print the errors of the keys and the perplexities."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--corpus", default="chitchat")
    parser.add_argument("--calibrate", type=int, default=20, help="documents of which the means are taken")
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--bits", type=int, nargs="+", default=[4, 3])
    options = parser.parse_args()
    checkpoint = resolve(options.model)
    model = load_model(checkpoint, dtype="float32", device="cpu", head="AutoModelForCausalLM", attn="sdpa")
    model.config.use_cache = False
    tokenizer = load_tokenizer(checkpoint)
    texts = [text for _, text in open_corpus(options.corpus).documents()]
    ids = tokenizer("\n".join(texts[options.calibrate :]))["input_ids"][: options.windows * options.tokens]
    windows = torch.tensor(ids).view(-1, options.tokens)
    with TemporaryDirectory() as folder:
        given = {"units": "none", "text": False, "sample_size": 1024, "device": "cpu", "populations": ["all"]}
        survey(
            options.model, texts[: options.calibrate], streams=["k", "k-rotated"], out=Path(folder) / "s", **given
        )
        made = export(Path(folder) / "s", to="keys", out=Path(folder) / "keys.safetensors")
        statistics = load_file(Path(folder) / "keys.safetensors")
    assert made.errors is not None
    by_place = made.errors.assign(place=made.errors["layer_name"].str.partition("/")[2]).groupby("place")
    print(by_place[["error_plain", "error_centred", "error_scaled"]].mean().to_string(float_format="%.4f"))
    rows = [("unrounded", "", "", perplexity(model, windows))]
    for bits in options.bits:
        for place in ("before", "after"):
            for scheme in SCHEMES:
                with rounded_keys(model, statistics, scheme, place, bits):
                    rows.append((f"{bits} bits", place, scheme, perplexity(model, windows)))
                print(*rows[-1], flush=True)
    print(pd.DataFrame(rows, columns=["keys", "rotation", "scheme", "perplexity"]).to_string(index=False))


if __name__ == "__main__":
    main()
