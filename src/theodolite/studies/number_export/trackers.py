"""Write numbers for MLflow, Weights & Biases, TensorBoard, and as Prometheus text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from theodolite.errors import InputError, TheodoliteError, nearest
from theodolite.storage.atomic import write_atomically
from theodolite.storage.location import local_path
from theodolite.studies.choice import AUTO
from theodolite.studies.number_export.numbers import Number, Numbers, describe, read_numbers
from theodolite.studies.survey_data import SurveyData

PROMETHEUS_SUFFIX, DATABASE_SUFFIX = ".prom", ".db"
EXPERIMENT = "theodolite"


@dataclass(frozen=True)
class ExportResult:
    """What was written, and the command that shows it; `layers`: the number of vectors, or numbers, by layer."""

    out: str | Path
    layers: dict[int, int]
    command: str
    errors: pd.DataFrame | None = None  # of quantized keys, by layer


def export_numbers(
    source: str | Path | SurveyData,
    *,
    to: str,
    out: str | Path,
    layer: str | int | None = None,
    population: str = AUTO,
    measures: Sequence[str] = (),
) -> ExportResult:
    """Write the numbers of a survey, a series or a check to an experiment tracker."""
    if to not in TRACKERS:
        raise InputError(f"--to {to!r} is not one of {', '.join(TRACKERS)}.{nearest(to, list(TRACKERS))}")
    found = read_numbers(source, layers=layer, population=population, measures=measures)
    if not found.numbers:
        raise InputError(f"{source} has no numbers to export: all of them are undefined.")
    command = TRACKERS[to](found, str(out))
    by_layer = Counter(number.layer for number in found.numbers if number.layer is not None)
    return ExportResult(str(out), dict(by_layer), command)


def write_prometheus(found: Numbers, out: str) -> str:
    """Write the text format that the textfile collector of the node exporter reads; the last step of a series."""
    path = local_path(out, "export")
    if path.suffix != PROMETHEUS_SUFFIX or path.is_dir():
        raise InputError(
            f"--out {out}: Prometheus reads files that end in {PROMETHEUS_SUFFIX}, such as theodolite.prom."
        )
    text = format_prometheus(found)
    write_atomically(path, lambda file: _write_text(file, text))
    return f"cp {path} /var/lib/node_exporter/textfile_collector/"


def format_prometheus(found: Numbers) -> str:
    """Return the numbers in the text format of Prometheus: one gauge per name, and labels.

    >>> one = Number("mean_cosine", 0.25, 6, "block 6")
    >>> print(format_prometheus(Numbers([one], {"model": "a"})).splitlines()[-1])
    theodolite_mean_cosine{model="a",layer="06",layer_name="block 6"} 0.25
    """
    last = max(number.step for number in found.numbers)
    kept = [number for number in found.numbers if number.step == last]
    if last:
        kept = [Number("step", float(last)), *kept]
    lines = []
    for name, group in groupby(sorted(kept, key=lambda one: one.name), key=lambda one: one.name):
        meaning = "Training step of the numbers" if name == "step" else describe(name)
        lines.append(f"# HELP theodolite_{name} {_escape(meaning, quote=False)}")
        lines.append(f"# TYPE theodolite_{name} gauge")
        lines += [f"theodolite_{name}{{{_labels(found, one)}}} {one.value!r}" for one in group]
    return "\n".join(lines) + "\n"


def _labels(found: Numbers, number: Number) -> str:
    labels = {name: one for name, one in found.facts.items() if name != "weights"} | dict(number.labels)
    if number.layer is not None:
        labels |= {"layer": f"{number.layer:0{found.width}d}", "layer_name": number.layer_name}
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(text: str, *, quote: bool = True) -> str:
    escaped = text.replace("\\", r"\\").replace("\n", r"\n").encode("utf-8", "replace").decode()
    return escaped.replace('"', r"\"") if quote else escaped


def write_tensorboard(found: Numbers, out: str) -> str:
    """Write an event file with one scalar per name, which charts join over steps."""
    _require("tensorboard", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    path = local_path(out, "export")
    with SummaryWriter(str(path)) as writer:
        for number in found.numbers:
            writer.add_scalar(found.key(number), number.value, number.step)
        facts = "\n\n".join(f"{name}: {value}" for name, value in found.facts.items())
        writer.add_text("theodolite", facts)
    return f"tensorboard --logdir {path}"


def write_mlflow(found: Numbers, out: str) -> str:
    """Log one run of the experiment "theodolite" to a tracking server or a database file."""
    if "://" not in out and not out.endswith(DATABASE_SUFFIX):
        raise InputError(
            f"--out {out}: MLflow requires the address of a server, such as http://localhost:5000, or a database "
            f"file, such as mlflow{DATABASE_SUFFIX}."
        )
    mlflow = _require("mlflow", "mlflow")
    entities = import_module("mlflow.entities")
    place = out if "://" in out else f"sqlite:///{Path(out).resolve()}"
    client = mlflow.MlflowClient(tracking_uri=place)
    known = client.get_experiment_by_name(EXPERIMENT)
    experiment = known.experiment_id if known is not None else client.create_experiment(EXPERIMENT)
    name = " on ".join(found.facts[key] for key in ("model", "corpus") if key in found.facts)
    run = client.create_run(experiment, run_name=name or found.facts.get("checked"), tags=dict(found.facts))
    metrics = [entities.Metric(found.key(one), one.value, 0, one.step) for one in found.numbers]
    for start in range(0, len(metrics), 500):  # a server takes at most 1,000 at a time
        client.log_batch(run.info.run_id, metrics=metrics[start : start + 500])
    client.set_terminated(run.info.run_id)
    return f"mlflow ui --backend-store-uri {place}"


def write_wandb(found: Numbers, out: str) -> str:
    """Log an offline run of Weights & Biases; nothing is sent until `wandb sync`."""
    wandb = _require("wandb", "wandb")
    path = local_path(out, "export")
    path.mkdir(parents=True, exist_ok=True)
    settings = wandb.Settings(silent=True, disable_git=True, disable_code=True, x_disable_meta=True)
    run = wandb.init(
        project=EXPERIMENT, mode="offline", dir=str(path), config=dict(found.facts), settings=settings
    )
    ordered = sorted(found.numbers, key=lambda one: one.step)
    for step, group in groupby(ordered, key=lambda one: one.step):
        run.log({found.key(one): one.value for one in group}, step=step)
    folder = Path(run.dir).parent
    run.finish()
    return f"wandb sync {folder}"


TRACKERS: dict[str, Callable[[Numbers, str], str]] = {
    "mlflow": write_mlflow,
    "wandb": write_wandb,
    "tensorboard": write_tensorboard,
    "prometheus": write_prometheus,
}


def _require(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise TheodoliteError(
            f"--to {module} requires a library that is not installed: pip install {package}"
        ) from error


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
