"""Faults of one machine of a cluster or of the shared folder, on real nodes."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.engines.ray.comparison import DOCUMENTS, make_plan
from tests.engines.ray.failing_sources import make_failing_source
from tests.engines.ray.nodes import ADDRESS, RecordingListener, as_seen_by, survey_on_cluster

from theodolite.engines.ray import driver
from theodolite.errors import TheodoliteError
from theodolite.storage.bucket import Bucket
from theodolite.surveys import media_survey
from theodolite.surveys.api import survey

COMMAND = """
from theodolite.engines.ray import engine, reachability
engine.FILE_TIMEOUT, engine.START_TIMEOUT, reachability.TIMEOUT = 1.0, 1800.0, 600.0
from theodolite.cli import main
main()
"""


def command(model: Path, out: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start the command as a user would, and capture its output."""
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


def outcome(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the exit code and the output."""
    out, error = process.communicate()
    lines = [line for line in error.splitlines() if "network_util.cc" not in line]
    return {"code": process.returncode, "out": out, "error": lines}


def commands(model: Path, root: Path, odd: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The command with a token other than the cluster's, without one, and with a folder that one machine lacks."""
    other, folder = root / "other-token", root / "odd" / "unseen"
    other.write_text("ab" * 32)
    (folder / "few.txt").write_text("\n".join(DOCUMENTS[:20]), encoding="utf-8")
    none = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    started = {
        "other": command(model, folder / "tokens", os.environ | {"RAY_AUTH_TOKEN_PATH": str(other)}),
        "none": command(model, folder / "tokens", none | {"HOME": str(root)}),
        "unseen": command(model, folder / "survey", dict(os.environ)),
    }
    ended = {name: outcome(process) for name, process in started.items()}
    on_odd = [path.name for path in as_seen_by(odd, folder).iterdir()]
    return {**ended, "on this machine": [path.name for path in folder.iterdir()], "on the odd one": on_odd}


def versions(model: Path, root: Path) -> dict[str, Any]:
    """One machine has another numpy."""
    other = root / "odd" / "packages" / "numpy-1.2.3.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.2.3\n")
    try:
        survey_on_cluster(make_plan(model), root / "versions", RecordingListener())
    except TheodoliteError as error:
        return {"message": str(error), "mine": np.__version__, "exists": (root / "versions").exists()}
    finally:
        shutil.rmtree(other)
    return {}


def pictures(root: Path) -> dict[str, Any]:
    """A vision model, whose workers read the images themselves."""
    model, folder, random = vision(root / "vit"), root / "pictures", np.random.default_rng(0)
    folder.mkdir()
    for number in range(10):
        Image.fromarray(random.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    scan = media_survey.scan_images
    media_survey.scan_images = partial(scan, shard_images=2)
    try:
        survey(model, folder, units="position", out=root / "pictures-local")
        listener = RecordingListener()
        where: dict[str, Any] = {"engine": "ray", "address": ADDRESS, "workers": 2}
        survey(model, folder, units="position", out=root / "pictures-survey", listener=listener, **where)
    finally:
        media_survey.scan_images = scan
    return {"shares": listener.shares}


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
    """The disk of one machine is full, to which it writes a save before the upload; the others have free space."""
    listener, out, barrier = RecordingListener(), Bucket(f"{store}/full/survey"), root / "full-machine-barrier"
    barrier.mkdir()
    plan = make_plan(model)
    both = partial(make_failing_source, plan.remake, barrier=barrier, pilot=len(plan.pilot_documents))
    with filled(as_seen_by(odd, root / "odd" / "temporary")):
        survey_on_cluster(replace(plan, remake=both), out, listener)
    for name in out.below():
        (out / name).get(root / "full-machine" / name)
    return {"warned": listener.warned}


def small_disk(root: Path) -> None:
    """Mount a small disk that all machines share."""
    (root / "small").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(root / "small")], check=True)


def full_folder(model: Path, root: Path) -> dict[str, Any]:
    """The shared disk becomes full during the survey; then space is freed, and the run is resumed."""
    out, plan, deaths = root / "small" / "survey", make_plan(model), driver.MAX_WORKER_DEATHS
    driver.MAX_WORKER_DEATHS = 1  # each start takes seconds
    listener, full, message = RecordingListener(3, lambda: full.__enter__()), filled(root / "small"), ""
    try:
        survey_on_cluster(plan, out, listener)
    except TheodoliteError as error:
        message = str(error)
    finally:
        driver.MAX_WORKER_DEATHS = deaths
    full.__exit__(None, None, None)
    ended = {"finished": (out / "survey.json").exists(), "message": message, "warned": listener.warned}
    again = RecordingListener()
    survey_on_cluster(plan, out, again, resume=True)
    shutil.copytree(out, root / "full-folder")  # the disk disappears with this program
    return {**ended, "folded": len(again.shares), "shards": len(plan.shards)}


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill a disk up to a few kilobytes, and free the space again."""
    ballast = folder / "ballast"
    free = shutil.disk_usage(folder).free
    try:
        ballast.write_bytes(bytes(max(0, free - 2**14)))
    except OSError as error:  # workers that write at the same time can use the last kilobytes first
        if error.errno != errno.ENOSPC:
            raise
    try:
        yield
    finally:
        ballast.unlink()
