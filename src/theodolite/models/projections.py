"""Projections: the modules of an attention that compute queries, keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

SEPARATE = (
    ("query", "key", "value"),  # BERT
    ("q_proj", "k_proj", "v_proj"),  # Llama, ViT, Whisper
    ("q_lin", "k_lin", "v_lin"),  # DistilBERT
    ("q", "k", "v"),  # T5
)
FUSED = ("c_attn", "qkv_proj")  # GPT-2, Phi-3: queries, keys and values side by side
BY_HEAD = "query_key_value"  # GPT-NeoX, Bloom: the same, but head by head
LOOKED_FOR = ", ".join([*("/".join(names) for names in SEPARATE), *FUSED, BY_HEAD])


@dataclass(frozen=True, eq=False)
class Projection:
    """The module whose output contains the queries, the keys or the values of all heads."""

    module: nn.Module
    heads: int
    width: int  # of one head
    start: int = 0  # first coordinate; with `third`, of nothing
    third: int | None = None  # 0, 1 or 2: the part of each head, if heads are side by side
    heads_first: bool = False  # the output is (items, heads, positions, width)

    def split(self, output: Tensor) -> Tensor:
        """Return the vectors by head. (items, positions, any) -> (items, heads, positions, width)"""
        if self.heads_first:
            return output
        if output.dim() == 4:
            return output.transpose(1, 2)
        items, positions = output.shape[:2]
        if self.third is not None:
            by_head = output.reshape(items, positions, self.heads, 3, self.width)[..., self.third, :]
        else:
            part = output[..., self.start : self.start + self.heads * self.width]
            by_head = part.reshape(items, positions, self.heads, self.width)
        return by_head.transpose(1, 2)


def find_projections(attention: nn.Module, heads: int, key_heads: int) -> dict[str, Projection] | None:
    """Return the projections "q", "k" and "v" that a module has under a known name; None if it has none."""
    for names in SEPARATE:
        parts: list[Any] = [getattr(attention, name, None) for name in names]
        if all(isinstance(part, nn.Module) for part in parts):
            counts = (heads, key_heads, key_heads)
            return {
                kind: Projection(part, count, _output_size(part) // count)
                for kind, part, count in zip("qkv", parts, counts, strict=True)
            }
    for name in FUSED:
        if isinstance(fused := getattr(attention, name, None), nn.Module):
            width = _output_size(fused) // (heads + 2 * key_heads)
            starts = {"q": (heads, 0), "k": (key_heads, heads), "v": (key_heads, heads + key_heads)}
            return {kind: Projection(fused, count, width, at * width) for kind, (count, at) in starts.items()}
    by_head: Any = getattr(attention, BY_HEAD, None)  # another layout if heads share keys, as in Falcon
    if isinstance(by_head, nn.Linear) and by_head.out_features == 3 * by_head.in_features:
        width = _output_size(by_head) // (3 * heads)
        return {kind: Projection(by_head, heads, width, third=third) for third, kind in enumerate("qkv")}
    return None


def _output_size(module: nn.Module) -> int:
    """Return the output size of a projection; that of GPT-2 is not a Linear and calls it nf."""
    size: Any = getattr(module, "out_features", None) or getattr(module, "nf", None)
    return int(size or 0)
