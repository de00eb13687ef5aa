"""What an exhibit may need of a survey, and the command that would make it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from theodolite.studies.anisotropy import kinds
from theodolite.studies.norm_variance.chosen_sets import has_sets
from theodolite.studies.norm_variance.profile import has_sums
from theodolite.studies.surveyed import Surveyed
from theodolite.studies.undefined import why_undefined


@dataclass(frozen=True)
class Need:
    """A test on a survey; `lack` is the sentence for one that fails it.

    Where `left_out` tells why in a word or two, the exhibit is drawn without that survey if others meet it.
    """

    words: str
    met: Callable[[Surveyed], bool]
    lack: Callable[[Surveyed], str]
    left_out: Callable[[Surveyed], str] | None = None
    laboratory: str = ""  # the verb of the laboratory whose folders are needed in place of surveys


def _no_units(survey: Surveyed) -> str:
    return (
        f"the vectors of {survey.model} belong to no units; "
        f"`{survey.command('--groups', 'COLUMN')}` would give them some"
    )


def _no_model(survey: Surveyed) -> str:
    return (
        f"{survey.model} was measured without a model; `theodolite survey MODEL --corpus CORPUS --out DIR` has one"
    )


def _no_words(survey: Surveyed) -> str:
    return (
        f"the units of {survey.model} on {survey.corpus} are not words (they are: {survey.facts.get('units')}); "
        f"`{survey.command('--units', 'word')}` would count by words"
    )


def _no_lengths(survey: Surveyed) -> str:
    return (
        f"the survey of {survey.model} does not record how many words its documents have; "
        f"`{survey.command()}` with this version would"
    )


def _no_sets(survey: Surveyed) -> str:
    where = "DIR" if survey.folder is None else shlex.quote(str(survey.folder))
    return f"the survey of {survey.model} has none; `theodolite sets {where}` would make them"


def _no_sums(survey: Surveyed) -> str:
    units = ("--units", str(survey.facts["units"])) if survey.facts.get("model") else ("--groups", "COLUMN")
    return (
        f"the survey of {survey.model} was made before its table of layers had them; "
        f"`{survey.command(*units)}` with this version would"
    )


def of_laboratory(verb: str, way: str) -> Need:
    """Return the need for folders that a laboratory left; `way` is the command that makes one."""
    return Need(
        f"folders of `theodolite {verb}`",
        lambda survey: survey.facts.get("laboratory") == verb,
        lambda survey: f"{survey.folder or survey.model} is none; `{way}` makes one",
        left_out=lambda survey: f"no folder of `theodolite {verb}`",
        laboratory=verb,
    )


SURVEY = Need(
    "surveys",
    lambda s: "laboratory" not in s.facts and not s.facts.get("series"),
    lambda s: (
        f"{s.folder or s.model} holds what `theodolite {s.facts.get('laboratory', 'dynamics')}` found; "
        "`theodolite survey MODEL --corpus CORPUS --out DIR` makes a survey"
    ),
    left_out=lambda s: "no survey",
)
MAKES_SERIES = "theodolite dynamics MODEL --checkpoints 'runs/checkpoint-{step}' --corpus CORPUS --out DIR"
SERIES = Need(
    "series of checkpoints (`theodolite dynamics`)",
    lambda s: bool(s.facts.get("series")) and bool(s.facts["steps"]),
    lambda s: (
        f"{s.folder or s.model} is {'one without a step yet' if s.facts.get('series') else 'none'}; "
        f"`{MAKES_SERIES}` makes one"
    ),
    left_out=lambda s: "no series of checkpoints",
    laboratory="dynamics",
)
DIMENSION = Need(
    "series that tell the intrinsic dimension",
    lambda s: "series" in s.tables and bool(s.tables["series"]["twonn"].notna().any()),
    lambda s: f"the series of {s.model} tells it of no layer; `{MAKES_SERIES}` does",
    left_out=lambda s: "no dimension in it",
)
ATTENTION = Need(
    "series that tell of attention",
    lambda s: "attention" in s.tables,
    lambda s: f"the series of {s.model} tells nothing of attention; `{MAKES_SERIES}` does",
    left_out=lambda s: "nothing of attention in it",
)
UNITS = Need("surveys with units (any text; `measure --groups`)", lambda s: s.facts["units"] != "none", _no_units)
MODEL = Need("surveys of a model", lambda s: s.facts.get("model") is not None, _no_model)
WORDS = Need("surveys made with `--units word`", lambda s: s.facts["units"] == "word", _no_words)
LENGTHS = Need(
    "surveys that record their documents' words",
    lambda s: bool(s.facts["corpus"].get("words_histogram")),
    _no_lengths,
)
SUMS = Need("surveys with sums over text alone and their errors", has_sums, _no_sums)
TOKEN_SETS = Need("token sets beside the survey (`theodolite sets DIR`)", has_sets, _no_sets)


def _of(words: str, wanted: tuple[str, ...], way: str) -> Need:
    """Return the need for surveys of these kinds; `way` is the command that makes one."""
    return Need(
        f"surveys of {words}",
        lambda survey: kinds.kind(survey) in wanted,
        lambda survey: (
            f"{survey.model} {kinds.TOLD.get(kinds.kind(survey), 'is of another kind')}; `{way}` has one"
        ),
        left_out=kinds.kind,
    )


def has_contextuality(survey: Surveyed) -> bool:
    """Say whether the table of layers tells self-similarity."""
    return "self_similarity" in survey.layers and bool(survey.layers["self_similarity"].notna().any())


def _asked_contextuality(survey: Surveyed) -> bool:
    return bool(survey.facts.get("settings", {}).get("contextuality"))


def _not_contextual(survey: Surveyed) -> str:
    if _asked_contextuality(survey):  # then the same command again would be of no help
        why = why_undefined(survey, str(survey.facts["populations"][0]), "self_similarity")
        return f"that of {survey.model} on {survey.corpus} was, but {why}; survey a larger corpus"
    return (
        f"the survey of {survey.model} does not tell how contextual its states are; "
        f"`{survey.command('--contextuality')}` would"
    )


TOKEN_LEVEL = _of(
    "text models by tokens", (kinds.TOKENS,), "theodolite survey minilm-l6 --corpus CORPUS --out DIR"
)
CHARACTER_LEVEL = _of(
    "text models by characters or bytes",
    (kinds.CHARACTERS,),
    "theodolite survey google/byt5-small --corpus CORPUS --out DIR",
)
SPEECH_OR_VISION = _of(
    "speech or vision models",
    (kinds.SPEECH, kinds.VISION),
    "theodolite survey whisper-tiny-en --corpus FOLDER_OF_AUDIO --out DIR",
)
CONVOLUTIONAL = _of(
    "convolutional models",
    (kinds.CONVOLUTION,),
    "theodolite survey microsoft/resnet-50 --corpus FOLDER_OF_IMAGES --out DIR",
)
TRANSFORMERS = _of(
    "encoders and decoders",
    (kinds.TOKENS, kinds.CHARACTERS, kinds.SPEECH, kinds.VISION),
    "theodolite survey smollm2-135m --corpus CORPUS --out DIR",
)
CONTEXTUALITY = Need(
    "surveys made with `--contextuality`",
    has_contextuality,
    _not_contextual,
    left_out=lambda s: "self-similarity is undefined" if _asked_contextuality(s) else "without `--contextuality`",
)
