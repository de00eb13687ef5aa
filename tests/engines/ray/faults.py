"""What can be wrong with one machine of a cluster or with its folder, each on real nodes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.engines.ray.nodes import ADDRESS, Heard, as_seen_by, on_cluster
from tests.engines.ray.surveyed import DOCUMENTS, planned

from theodolite.errors import TheodoliteError
from theodolite.surveys import media
from theodolite.surveys.bucket import Bucket
from theodolite.surveys.cluster import drive
from theodolite.surveys.models import survey

COMMAND = """
from theodolite.surveys.cluster import cluster
cluster.SEEING = 1.0
from theodolite.cli import main
main()
"""


def command(model: Path, out: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start the command as a user would, who sees what it says."""
    arguments = [
        "survey",
        str(model),
        "--corpus",
        str(out.parent / "few.txt"),
        "--out",
        str(out),
        "--engine",
        "ray",
    ]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments, "--address", ADDRESS, "--workers", "2", "--quiet"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(process: subprocess.Popen[str], began: float) -> dict[str, Any]:
    """Return how and when it ended, and the lines it said."""
    out, error = process.communicate(timeout=60)
    lines = [line for line in error.splitlines() if "network_util.cc" not in line]  # here is no network
    return {"code": process.returncode, "out": out, "said": lines, "seconds": time.monotonic() - began}


def commands(model: Path, root: Path, odd: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The command with another token than the cluster's, without one, and where one machine has another disk."""
    other, folder = root / "other-token", root / "odd" / "unseen"
    other.write_text("ab" * 32)
    (folder / "few.txt").write_text("\n".join(DOCUMENTS[:20]), encoding="utf-8")
    none = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    began = time.monotonic()
    started = {
        "other": command(model, folder / "tokens", os.environ | {"RAY_AUTH_TOKEN_PATH": str(other)}),
        "none": command(model, folder / "tokens", none | {"HOME": str(root)}),
        "unseen": command(model, folder / "survey", dict(os.environ)),
    }
    ended = {name: told(process, began) for name, process in started.items()}
    there = [path.name for path in as_seen_by(odd, folder).iterdir()]
    return {**ended, "here": [path.name for path in folder.iterdir()], "there": there}


def versions(model: Path, root: Path) -> dict[str, Any]:
    """One machine has another numpy."""
    other = root / "odd" / "packages" / "numpy-1.2.3.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.2.3\n")
    try:
        on_cluster(planned(model), root / "versions", Heard())
    except TheodoliteError as error:
        return {"said": str(error), "mine": np.__version__, "there": (root / "versions").exists()}
    finally:
        shutil.rmtree(other)
    return {}


def pictures(root: Path) -> dict[str, Any]:
    """A model of vision, whose workers open the pictures themselves."""
    model, folder, random = vision(root / "vit"), root / "pictures", np.random.default_rng(0)
    folder.mkdir()
    for number in range(10):
        Image.fromarray(random.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    scan = media.scan_images
    media.scan_images = partial(scan, shard_images=2)
    try:
        survey(model, folder, units="position", out=root / "pictures-local")
        heard = Heard()
        where: dict[str, Any] = {"engine": "ray", "address": ADDRESS, "workers": 2}
        survey(model, folder, units="position", out=root / "pictures-survey", listener=heard, **where)
    finally:
        media.scan_images = scan
    return {"shares": heard.shares}


def vision(folder: Path) -> Path:
    """Make a small random ViT."""
    import torch
    from transformers import ViTConfig, ViTImageProcessorPil, ViTModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    ViTModel(ViTConfig(image_size=32, patch_size=8, **sizes)).save_pretrained(folder)
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def full_machine(model: Path, root: Path, store: str, odd: subprocess.Popen[bytes]) -> dict[str, Any]:
    """One machine's disk is full, on which it writes a save before that is uploaded; the others have room."""
    heard, out = Heard(), Bucket(f"{store}/full/survey")
    with filled(as_seen_by(odd, root / "odd" / "temporary")):
        on_cluster(planned(model), out, heard)
    for name in out.below():
        (out / name).get(root / "full-machine" / name)
    return {"warned": heard.warned}


def small_disk(root: Path) -> None:
    """Mount a small disk, which all machines see."""
    (root / "small").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(root / "small")], check=True)


def full_folder(model: Path, root: Path) -> dict[str, Any]:
    """The shared disk is full in mid-survey, for all; then there is room, and the run is taken up."""
    out, plan, lives = root / "small" / "survey", planned(model), drive.LIVES
    drive.LIVES = 1  # each start takes seconds
    heard, full, said = Heard(3, lambda: full.__enter__()), filled(root / "small"), ""
    try:
        on_cluster(plan, out, heard)
    except TheodoliteError as error:
        said = str(error)
    finally:
        drive.LIVES = lives
    full.__exit__(None, None, None)
    ended = {"finished": (out / "survey.json").exists(), "said": said, "warned": heard.warned}
    again = Heard()
    on_cluster(plan, out, again, resume=True)
    shutil.copytree(out, root / "full-folder")  # the disk goes with this program
    return {**ended, "folded": len(again.shares), "shards": len(plan.shards)}


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill a disk but for a few kilobytes, and make room again."""
    ballast = folder / "ballast"
    left = shutil.disk_usage(folder).free
    ballast.write_bytes(bytes(max(0, left - 2**14)))
    try:
        yield
    finally:
        ballast.unlink()
