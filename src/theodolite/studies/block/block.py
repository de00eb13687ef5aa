"""The block laboratory: one block, several seeds and directions, and a bias of increasing norm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.models.checkpoint import load_model, resolve
from theodolite.statistics.cells import POPULATIONS
from theodolite.studies.block.inputs import (
    Inputs,
    draw_sequences,
    own_direction,
    random_direction,
    read_sampled_states,
    read_trained_norms,
)
from theodolite.studies.block.isolated_block import IsolatedBlock
from theodolite.studies.block.sweep import NONE, QUANTITIES, default_norms, sweep
from theodolite.studies.block.untrained import INITIALISATIONS, load_configuration, make_untrained
from theodolite.studies.laboratory import Findings, check_laboratory_folder, make_facts
from theodolite.surveys.provenance import describe_checkpoint

INPUTS = ("table", "states")


@dataclass(frozen=True)
class BlockOptions:
    """Options of the laboratory; the defaults are those of the paper."""

    layer: int = 1
    sequences: int = 16
    length: int = 512
    norms: tuple[float, ...] = ()  # if empty, chosen from the norm of the inputs
    seeds: int = 3
    directions: int = 3
    spread_sequences: int = 1  # of runs after the first, which only show the effect of seeds and directions
    seed: int = 0
    inputs: str = "table"
    population: str = "all"
    initialisation: str = "configuration"

    def check(self, survey: str | Path | None) -> None:
        """Raise for invalid options."""
        for name in ("sequences", "seeds", "directions", "spread_sequences"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} must be at least 1 (got {getattr(self, name)}).")
        if self.inputs not in INPUTS:
            raise InputError(f"--inputs {self.inputs!r} is not one of {', '.join(INPUTS)}.")
        if self.initialisation not in INITIALISATIONS:
            raise InputError(
                f"--initialisation {self.initialisation!r} is not one of {', '.join(INITIALISATIONS)}."
            )
        if self.inputs == "states" and survey is None:
            raise InputError("--inputs states requires a survey of the same model; give --survey DIR.")
        if self.population not in POPULATIONS:
            raise InputError(f"--population {self.population!r} is not one of {', '.join(POPULATIONS)}.")
        if self.norms and (
            len(self.norms) < 2 or min(self.norms) < 0 or list(self.norms) != sorted(set(self.norms))
        ):
            raise InputError("--norms must be two or more increasing numbers from 0, such as 0,1,10,30.")


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
    """Run one block on inputs with a bias of increasing norm; return the findings, saved to `out` if given.

    `model` is a trained model, of which block `layer` is used. `config` is a configuration by name (bert-base,
    gpt2, llama) or file, whose untrained block is created anew for each seed; with `initialisation` "torch" its
    linear layers keep PyTorch's default initialisation. With `inputs` "states" the inputs are a survey's sampled
    states of the layer below instead of rows of the embedding table, and the bias points along their mean.
    """
    options = BlockOptions(
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
    options.check(survey)
    if (model is None) == (config is None):
        raise InputError("Give either a MODEL or --config (bert-base, gpt2, llama or a config.json).")
    if model is not None and initialisation != "configuration":
        raise InputError("--initialisation requires an untrained block; give --config instead of a MODEL.")
    if config is not None and inputs == "states":
        raise InputError("--inputs states requires a trained model; give a MODEL instead of --config.")
    check_laboratory_folder(out, "block", overwrite=overwrite)
    listener, started = listener or Listener(), time.perf_counter()
    laboratory = _Laboratory(options, survey, listener)
    trained = read_trained_norms(survey, population) if survey is not None else None
    findings = laboratory.run(_make_blocks(model, config, options, listener), config)
    if trained is not None:
        findings.facts["settings"]["survey"] = trained[0]
        findings.tables["trained"] = trained[1]
    findings.facts["seconds"] = round(time.perf_counter() - started, 1)
    return findings.save_if_asked(out, overwrite=overwrite)


SeededBlock = tuple[int, IsolatedBlock, dict[str, Any]]


def _make_blocks(
    model: str | None, config: str | None, options: BlockOptions, listener: Listener
) -> Iterator[SeededBlock]:
    """Yield a block and the facts of its model for every seed: a new untrained one, or the same trained one."""
    seeds = range(options.seed, options.seed + options.seeds)
    if config is not None:
        known = load_configuration(config)
        for seed in seeds:
            listener.say(f"creating an untrained {config} with seed {seed}")
            network = make_untrained(known, seed, options.initialisation)
            facts = {
                "name": f"{config}, untrained" + (" (torch)" if options.initialisation == "torch" else ""),
                "sha256": None,
                "revision": None,
                "architecture": type(network).__name__,
                "parameters": sum(parameter.numel() for parameter in network.parameters()),
                "dtype": "float32",
                "device": "cpu",
            }
            yield seed, IsolatedBlock.of(network, options.layer, options.length), facts
        return
    checkpoint = resolve(str(model), progress=listener.say)
    listener.say(f"loading {checkpoint.name}")
    network = load_model(checkpoint, dtype="float32", device="cpu")
    subject = IsolatedBlock.of(network, options.layer, options.length)
    for seed in seeds:
        yield seed, subject, describe_checkpoint(checkpoint, network, "float32", "cpu")


class _Laboratory:
    """Runs the sweeps and collects their tables."""

    def __init__(self, options: BlockOptions, survey: str | Path | None, listener: Listener) -> None:
        self.options, self.survey, self.listener = options, survey, listener
        self.norms = list(options.norms)
        self.directions = 1 if options.inputs == "states" else options.directions
        self.runs: list[dict[str, Any]] = []
        self.parts: dict[str, list[pd.DataFrame]] = {}
        self.vectors: list[Tensor] = []

    def run(self, blocks: Iterator[SeededBlock], config: str | None) -> Findings:
        """Run all sweeps; the first run uses all sequences, the others `spread_sequences` of them."""
        for seed, subject, model in blocks:
            rows = self._rows(subject)
            facts = model  # equal for all seeds
            for number in range(self.directions):
                self._run(subject, rows, seed, number)
        tables = {name: pd.concat(parts, ignore_index=True) for name, parts in self.parts.items()}
        tables["runs"] = pd.DataFrame(self.runs)
        tables["summary"] = summarise_fixed_points(tables["fixed_points"])
        settings = {name: value for name, value in vars(self.options).items() if name != "norms"}
        properties = {
            "dim": subject.dim,
            "blocks": subject.blocks,
            "heads": subject.projections.heads,
            "key_heads": subject.projections.key_heads,
            "causal": subject.causal,
            "rotation": subject.rotation is not None,
            "closed_by_norm": subject.closing_norm is not None,
        }
        facts = make_facts("block", facts, config=config, norms=self.norms, **settings, **properties)
        return Findings(facts, tables, {"directions": torch.stack(self.vectors)})

    def _rows(self, subject: IsolatedBlock) -> Tensor:
        """Return the vectors that inputs are drawn from. (rows, dim)"""
        if self.options.inputs == "states":
            states = read_sampled_states(Path(str(self.survey)), self.options.layer - 1, self.options.population)
            return _check_width(states, subject, "--survey: the states")
        return _check_width(subject.table, subject, "The rows of the embedding table")

    def _run(self, subject: IsolatedBlock, rows: Tensor, seed: int, number: int) -> None:
        count = min(self.options.spread_sequences, self.options.sequences) if self.runs else self.options.sequences
        states = draw_sequences(rows, count, self.options.length, seed=seed)
        own = self.options.inputs == "states"
        direction = own_direction(rows) if own else random_direction(subject.dim, seed=seed, number=number)
        inputs, run = Inputs(states, direction), len(self.runs)
        self.norms = self.norms or default_norms(inputs.mean_square**0.5, subject.dim)
        for name, table in sweep(subject, inputs, self.norms, self._report(run)).items():
            self.parts.setdefault(name, []).append(_add_run(table, run))
        self.vectors.append(direction)
        row = {"run": run, "seed": seed, "direction": number, "sequences": count}
        self.runs.append({**row, "mean_square": inputs.mean_square})

    def _report(self, run: int) -> Callable[[float], None]:
        runs = self.options.seeds * self.directions
        return lambda norm: self.listener.say(f"run {run + 1} of {runs}: bias norm {norm:.4g}")


def summarise_fixed_points(points: pd.DataFrame) -> pd.DataFrame:
    """Return the fixed points over runs: mean, standard deviation, extremes and the number of runs with one."""
    rows = []
    for quantity in QUANTITIES:
        selected = points[points["quantity"] == quantity]
        known = selected["n_star"].dropna()
        row = {
            "quantity": quantity,
            "runs": len(selected),
            "found": len(known),
            "n_star": known.mean(),
            "n_star_sd": known.std(ddof=1),
            "n_star_low": known.min(),
            "n_star_high": known.max(),
            "closed_form": selected["closed_form"].mean(),
            "reason": "" if len(known) else NONE,
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _add_run(table: pd.DataFrame, run: int) -> pd.DataFrame:
    """Add the number of the run as first column, followed by the norm."""
    lead = ["run", "norm"] if "norm" in table else ["run"]
    table = table.assign(run=run)
    return table[[*lead, *(name for name in table if name not in lead)]]


def _check_width(rows: Tensor, subject: IsolatedBlock, what: str) -> Tensor:
    if rows.shape[1] != subject.dim:
        raise InputError(
            f"{what} have {rows.shape[1]} dimensions, but the block expects {subject.dim}; "
            "give --inputs states with --survey DIR, a survey of the same model, to use its own states."
        )
    return rows
