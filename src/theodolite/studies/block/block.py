"""The laboratory: one block, several seeds and directions, a bias of growing norm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from theodolite.errors import InputError
from theodolite.sources.text.checkpoint import load_model, resolve
from theodolite.statistics.cells import POPULATIONS
from theodolite.studies.block.configs import INITIALISATIONS, configuration, untrained
from theodolite.studies.block.inputs import Inputs, draw, own_direction, random_direction, sampled_states
from theodolite.studies.block.subject import Subject
from theodolite.studies.block.sweep import NONE, QUANTITIES, default_norms, sweep
from theodolite.studies.block.trained import trained_norms
from theodolite.studies.laboratory import Findings, check_free, facts_of
from theodolite.surveys.listener import Listener
from theodolite.surveys.model_facts import model_facts

INPUTS = ("table", "states")


@dataclass(frozen=True)
class Setting:
    """How a block is fed, the paper's way unless told otherwise."""

    layer: int = 1
    sequences: int = 16
    length: int = 512
    norms: tuple[float, ...] = ()  # empty: chosen by the inputs' length
    seeds: int = 3
    directions: int = 3
    spread_sequences: int = 1  # of runs after the first, which only tell how much seeds and directions matter
    seed: int = 0
    inputs: str = "table"
    population: str = "all"
    initialisation: str = "configuration"

    def check(self, survey: str | Path | None) -> None:
        """Refuse what cannot be done."""
        for name in ("sequences", "seeds", "directions", "spread_sequences"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} {getattr(self, name)}: wanted at least 1.")
        if self.inputs not in INPUTS:
            raise InputError(f"--inputs {self.inputs!r} is not one of {', '.join(INPUTS)}.")
        if self.initialisation not in INITIALISATIONS:
            raise InputError(
                f"--initialisation {self.initialisation!r} is not one of {', '.join(INITIALISATIONS)}."
            )
        if self.inputs == "states" and survey is None:
            raise InputError("--inputs states: wanted a survey of the same model besides; give --survey DIR.")
        if self.population not in POPULATIONS:
            raise InputError(f"--population {self.population!r} is not one of {', '.join(POPULATIONS)}.")
        if self.norms and (
            len(self.norms) < 2 or min(self.norms) < 0 or list(self.norms) != sorted(set(self.norms))
        ):
            raise InputError("--norms: wanted two or more rising numbers from 0 up, such as 0,1,10,30.")


def block(
    model: str | None = None,
    *,
    config: str | None = None,
    layer: int = 1,
    sequences: int = 16,
    length: int = 512,
    norms: Sequence[float] = (),
    seeds: int = 3,
    directions: int = 3,
    spread_sequences: int = 1,
    seed: int = 0,
    inputs: str = "table",
    survey: str | Path | None = None,
    population: str = "all",
    initialisation: str = "configuration",
    out: str | Path | None = None,
    overwrite: bool = False,
    listener: Listener | None = None,
) -> Findings:
    """Feed one block with a bias of growing norm; return what was found, and save it where `out` says.

    `model` is a real one, of which block `layer` is taken; `config` a configuration by name (bert-base, gpt2,
    llama) or file, whose block is as it is before training, made anew for each seed. `initialisation` "torch"
    leaves its linear maps as torch makes them instead. `inputs` "states" takes a survey's sampled states of the
    layer below instead of rows of the table, and the bias along their own mean.
    """
    setting = Setting(
        layer,
        sequences,
        length,
        tuple(norms),
        seeds,
        directions,
        spread_sequences,
        seed,
        inputs,
        population,
        initialisation,
    )
    setting.check(survey)
    if (model is None) == (config is None):
        raise InputError("Give either a MODEL or --config bert-base, gpt2, llama or a config.json.")
    if model is not None and initialisation != "configuration":
        raise InputError("--initialisation is of an untrained block; give --config instead of a MODEL.")
    if config is not None and inputs == "states":
        raise InputError("--inputs states are a trained model's; give a MODEL instead of --config.")
    if out is not None:
        check_free(Path(out), "block", overwrite=overwrite)
    listener, begun = listener or Listener(), time.perf_counter()
    laboratory = _Laboratory(setting, survey, listener)
    trained = trained_norms(survey, population) if survey is not None else None
    found = laboratory.findings(_subjects(model, config, setting, listener), config)
    if trained is not None:
        found.facts["settings"]["survey"] = trained[0]
        found.tables["trained"] = trained[1]
    found.facts["seconds"] = round(time.perf_counter() - begun, 1)
    if out is not None:
        found.save(out, overwrite=overwrite)
    return found


Made = tuple[int, Subject, dict[str, Any]]


def _subjects(model: str | None, config: str | None, setting: Setting, listener: Listener) -> Iterator[Made]:
    """Give a block and its model's facts for every seed: a fresh one, or a trained one that stays the same."""
    seeds = range(setting.seed, setting.seed + setting.seeds)
    if config is not None:
        known = configuration(config)
        for seed in seeds:
            listener.say(f"making {config} untrained, seed {seed}")
            network = untrained(known, seed, setting.initialisation)
            facts = {
                "name": f"{config}, untrained" + (" (torch)" if setting.initialisation == "torch" else ""),
                "sha256": None,
                "revision": None,
                "architecture": type(network).__name__,
                "parameters": sum(each.numel() for each in network.parameters()),
                "dtype": "float32",
                "device": "cpu",
            }
            yield seed, Subject.of(network, setting.layer, setting.length), facts
        return
    checkpoint = resolve(str(model), progress=listener.say)
    listener.say(f"loading {checkpoint.name}")
    network = load_model(checkpoint, dtype="float32", device="cpu")
    subject = Subject.of(network, setting.layer, setting.length)
    for seed in seeds:
        yield seed, subject, model_facts(checkpoint, network, "float32", "cpu")


class _Laboratory:
    """Runs the sweeps and gathers their tables."""

    def __init__(self, setting: Setting, survey: str | Path | None, listener: Listener) -> None:
        self.setting, self.survey, self.listener = setting, survey, listener
        self.norms = list(setting.norms)
        self.directions = 1 if setting.inputs == "states" else setting.directions
        self.runs: list[dict[str, Any]] = []
        self.parts: dict[str, list[pd.DataFrame]] = {}
        self.vectors: list[Tensor] = []

    def findings(self, subjects: Iterator[Made], config: str | None) -> Findings:
        """Run everything; the first run is of all sequences, the others of a few."""
        for seed, subject, model in subjects:
            rows = self._rows(subject)
            facts = model  # of the last one; all seeds have the same
            for number in range(self.directions):
                self._run(subject, rows, seed, number)
        tables = {name: pd.concat(parts, ignore_index=True) for name, parts in self.parts.items()}
        tables["runs"] = pd.DataFrame(self.runs)
        tables["summary"] = summary(tables["fixed_points"])
        told = {name: value for name, value in vars(self.setting).items() if name != "norms"}
        where = {
            "dim": subject.dim,
            "blocks": subject.blocks,
            "heads": subject.projections.heads,
            "key_heads": subject.projections.key_heads,
            "causal": subject.causal,
            "rotation": subject.turn is not None,
            "closed_by_norm": subject.closing is not None,
        }
        made = facts_of("block", facts, config=config, norms=self.norms, **told, **where)
        return Findings(made, tables, {"directions": torch.stack(self.vectors)})

    def _rows(self, subject: Subject) -> Tensor:
        """Return what inputs are drawn from. (rows, dim)"""
        if self.setting.inputs == "states":
            states = sampled_states(Path(str(self.survey)), self.setting.layer - 1, self.setting.population)
            return _fitting(states, subject, "--survey: its states")
        return _fitting(subject.table, subject, "the rows of the embedding table")

    def _run(self, subject: Subject, rows: Tensor, seed: int, number: int) -> None:
        count = min(self.setting.spread_sequences, self.setting.sequences) if self.runs else self.setting.sequences
        states = draw(rows, count, self.setting.length, seed=seed)
        own = self.setting.inputs == "states"
        direction = own_direction(rows) if own else random_direction(subject.dim, seed=seed, number=number)
        inputs, run = Inputs(states, direction), len(self.runs)
        self.norms = self.norms or default_norms(inputs.mean_square**0.5, subject.dim)
        for name, table in sweep(subject, inputs, self.norms, self._said(run)).items():
            self.parts.setdefault(name, []).append(_led(table, run))
        self.vectors.append(direction)
        told = {"run": run, "seed": seed, "direction": number, "sequences": count}
        self.runs.append({**told, "mean_square": inputs.mean_square})

    def _said(self, run: int) -> Callable[[float], None]:
        of = self.setting.seeds * self.directions
        return lambda norm: self.listener.say(f"run {run + 1} of {of}: bias norm {norm:.4g}")


def summary(points: pd.DataFrame) -> pd.DataFrame:
    """Return the fixed points over runs: mean, standard deviation, ends, and in how many runs there was none."""
    rows = []
    for quantity in QUANTITIES:
        mine = points[points["quantity"] == quantity]
        known = mine["n_star"].dropna()
        row = {
            "quantity": quantity,
            "runs": len(mine),
            "found": len(known),
            "n_star": known.mean(),
            "n_star_sd": known.std(ddof=1),
            "n_star_low": known.min(),
            "n_star_high": known.max(),
            "closed_form": mine["closed_form"].mean(),
            "reason": "" if len(known) else NONE,
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _led(table: pd.DataFrame, run: int) -> pd.DataFrame:
    """Put the run first, then the norm."""
    lead = ["run", "norm"] if "norm" in table else ["run"]
    table = table.assign(run=run)
    return table[[*lead, *(name for name in table if name not in lead)]]


def _fitting(rows: Tensor, subject: Subject, what: str) -> Tensor:
    if rows.shape[1] != subject.dim:
        raise InputError(
            f"{what} have {rows.shape[1]} dimensions and the block reads {subject.dim}; "
            "--inputs states with --survey DIR of the same model feeds it its own states."
        )
    return rows
