"""Resuming: what a folder records about the settings of its run, compared with the settings given now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from theodolite.errors import InputError
from theodolite.models.layers import RESIDUAL, split_layer_names
from theodolite.storage.file_names import FACTS, REPLACEMENT, UNFINISHED
from theodolite.storage.files import read_json
from theodolite.storage.location import Location
from theodolite.surveys.options import SurveyOptions
from theodolite.surveys.provenance import differences
from theodolite.surveys.survey import OTHER_UNITS

PILOT_DIGEST = "pilot_sha256"  # in unfinished.json: which centres the saved sums have
FILTERS = "filters"  # in unfinished.json: how the documents were selected; null if there are none
TEXT = "text"  # in unfinished.json: whether occurrences of units may be stored with their text


class RecordedRun(NamedTuple):
    """The run that a folder contains: what identifies it, and how its documents were selected."""

    place: Location
    identity: dict[str, Any]
    filters: dict[str, Any]
    finished: bool

    def check(
        self, identity: Mapping[str, Any], filters: Mapping[str, Any] | None, *, incomplete: bool = False
    ) -> None:
        """Raise if the run has other settings. An `incomplete` identity has those that are known so far."""
        identity = self._allow_fewer_units(identity)
        lines = differences(_restrict(self.identity, identity) if incomplete else self.identity, identity)
        if any(line.startswith("corpus.sha256") for line in lines):  # a digest says little: name the filters too
            chosen = _restrict(dict(filters or {}), self.filters)
            lines = [*differences({"corpus": {FILTERS: self.filters}}, {"corpus": {FILTERS: chosen}}), *lines]
        if lines:
            listed = "\n  ".join(lines)
            raise InputError(
                f"--resume: the run in {self.place} has other settings; give them, or another --out:\n  {listed}"
            )

    @property
    def units(self) -> list[str]:
        """The kinds of units of the run."""
        return _units_in(self.identity)

    def _allow_fewer_units(self, identity: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the identity with all kinds of units of a finished survey that has those of the identity."""
        (first, *others), (ours, *given) = (_units_in(each) for each in (self.identity, identity))
        if not (self.finished and ours == first and set(given) <= set(others)):
            return identity
        units = self.identity["settings"]["units"]
        return {**identity, "settings": {**identity["settings"], "units": units}}


def describe_units(kinds: Sequence[str]) -> str | list[str]:
    """Return the kinds of units as the settings of a run record them."""
    return kinds[0] if len(kinds) == 1 else list(kinds)


def run_identity(identity: Mapping[str, Any], other_units: Sequence[str]) -> dict[str, Any]:
    """Return what identifies a run: the identity of its survey, with all kinds of units of the run."""
    settings = identity["settings"]
    return {**identity, "settings": {**settings, "units": describe_units([settings["units"], *other_units])}}


def _units_in(identity: Mapping[str, Any]) -> list[str]:
    units = identity["settings"]["units"]
    return [units] if isinstance(units, str) else list(units)


def find_recorded_run(out: Location) -> RecordedRun | None:
    """Return the run that `--resume` would continue, if the folder contains one."""
    place = out / REPLACEMENT if (out / REPLACEMENT / UNFINISHED).is_file() else out
    if (place / UNFINISHED).is_file():
        identity = read_json(place / UNFINISHED)
        for name in (PILOT_DIGEST, TEXT):
            identity.pop(name, None)
        return RecordedRun(place, identity, identity.pop(FILTERS, None) or {}, finished=False)
    if (place / FACTS).is_file():
        facts = read_json(place / FACTS)
        filters = (facts.get("corpus") or {}).get(FILTERS) or {}
        identity = run_identity(facts["identity"], facts.get(OTHER_UNITS, []))
        return RecordedRun(place, identity, filters, finished=True)
    return None


def known_settings(options: SurveyOptions, **more: Any) -> dict[str, Any]:
    """Return the settings of a survey that are known before the model is loaded; None is not known."""
    known: dict[str, Any] = {
        "populations": list(options.populations),
        "sample_size": options.sample_size,
        "contextuality": options.contextuality,
        "layer_scores": options.layer_scores,
        **{name: value for name, value in more.items() if value is not None},
    }
    if options.attention:
        known["attention"] = True
    if options.layers is not None and tuple(options.streams) == (RESIDUAL,):
        names, numbers = split_layer_names(options.layers)
        if not names and min(numbers) >= 0:
            known["layers"] = sorted(set(numbers))
    return known


def _restrict(there: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of the first mapping that the second has too."""
    return {
        name: _restrict(value, here[name]) if isinstance(value, Mapping) else value
        for name, value in there.items()
        if name in here
    }
