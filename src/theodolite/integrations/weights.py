"""Which weights a model has now, as a short word that no two steps of a training share."""

from __future__ import annotations

from hashlib import sha256

import torch
from torch import nn

WAYS = ("sampled", "whole", "none")
ELEMENTS = 4096


def weights_word(model: nn.Module, way: str = "sampled") -> str | None:
    """Return a sha256 over the parameters: names, shapes and numbers.

    `sampled` reads at most 4,096 numbers of each, evenly spaced: milliseconds whatever the size, and an optimizer
    moves every one of them. `whole` reads all; a gigabyte takes about a second.
    """
    if way == "none":
        return None
    digest = sha256(way.encode())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            flat = parameter.detach().reshape(-1)
            if way == "sampled":
                flat = flat[:: max(flat.numel() // ELEMENTS, 1)]
            digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype} ".encode())
            digest.update(flat.cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
