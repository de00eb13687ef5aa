"""What survey.json says of any model."""

from __future__ import annotations

from typing import Any

from theodolite.sources.text.checkpoint import Checkpoint


def model_facts(checkpoint: Checkpoint, network: Any, dtype: str, device: str) -> dict[str, Any]:
    """Return name, weights, size and where it ran."""
    return {
        "name": checkpoint.name,
        "sha256": checkpoint.sha256,
        "revision": checkpoint.revision,
        "architecture": type(network).__name__,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "dtype": dtype,
        "device": device,
    }
