"""Few wide vectors: a survey of 24 pictures by a small ResNet whose five layers have 4,096 coordinates each.

    python -m benchmarks.few_vectors

Fewer vectors than coordinates need no matrix of all pairs of coordinates. The survey runs in a separate process;
its processor time, its peak memory and the size of its sums are compared with one such matrix.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.results import Row
from benchmarks.runner import run_from_command_line

SIDE, DIM = 64, 4096
WIDTHS = [16, 64, 256, 1024]  # so that every feature map has 4,096 values


def run(quick: bool = False, pictures: int = 24) -> dict[str, Any]:
    """Survey the pictures in another process, and return its processor time and memory."""
    with TemporaryDirectory() as folder:
        write_model(Path(folder) / "model")
        write_pictures(Path(folder) / "pictures", 2 if quick else pictures)
        started, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "theodolite",
            "survey",
            f"{folder}/model",
            "--corpus",
            f"{folder}/pictures",
        ]
        subprocess.run([*command, "--out", f"{folder}/out"], check=True, capture_output=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = used.ru_utime + used.ru_stime - started.ru_utime - started.ru_stime
        sums = (Path(folder) / "out/state.safetensors").stat().st_size
        elapsed = time.perf_counter() - clock
    matrix = 8 * DIM**2
    about = f"{2 if quick else pictures} pictures, five layers of {DIM:,} coordinates"
    return {
        "rows": [
            Row(
                f"size of the sums over one matrix of all pairs, {about}",
                sums / matrix,
                None,
                f"{sums / 1e6:,.0f} MB",
                f"{matrix / 1e6:,.0f} MB",
            ).to_dict()
        ],
        "processor_s": round(spent, 1),
        "elapsed_s": round(elapsed, 1),
        "peak_MB": round(used.ru_maxrss / 1e3),
    }


def write_model(folder: Path) -> None:
    """Write a small ResNet with random weights."""
    from transformers import BitImageProcessor, ResNetConfig, ResNetModel

    ResNetModel(ResNetConfig(embedding_size=16, hidden_sizes=WIDTHS, depths=[1] * 4)).save_pretrained(str(folder))
    size = {"height": SIDE, "width": SIDE}
    BitImageProcessor(size=size, crop_size=size, do_center_crop=False).save_pretrained(str(folder))


def write_pictures(folder: Path, count: int) -> None:
    """Write random pictures."""
    from PIL import Image

    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        values = rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(values).save(folder / f"{number:04}.png")


if __name__ == "__main__":
    run_from_command_line(run, __doc__, pictures=24)
