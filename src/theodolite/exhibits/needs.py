"""What an exhibit needs of a survey, and the command that makes such a survey."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from theodolite.studies.anisotropy import layers
from theodolite.studies.norm_variance.profile import has_sums
from theodolite.studies.norm_variance.token_set_files import has_token_sets
from theodolite.studies.survey_data import SurveyData, explain_undefined
from theodolite.text import UNIT_LABELS


@dataclass(frozen=True)
class Need:
    """A test of a survey. `explain` returns what is missing in a survey that fails it, and the command that helps.

    With `reason`, an exhibit omits the surveys that fail the test if others pass it; its caption names them with
    this short reason. Without it, one survey that fails is an error.
    """

    description: str
    is_met: Callable[[SurveyData], bool]
    explain: Callable[[SurveyData], str]
    reason: Callable[[SurveyData], str] | None = None
    laboratory: str = ""  # the command whose folders are needed in place of surveys


def _explain_no_units(survey: SurveyData) -> str:
    modality = (survey.facts.get("model") or {}).get("modality")
    options = {None: ("--groups", "COLUMN"), "text": ("--units", "id")}.get(modality, ("--units", "label"))
    return f"the vectors of {survey.model} have no units; to group them, run `{survey.command(*options)}`"


def _explain_no_model(survey: SurveyData) -> str:
    return (
        f"{survey.model} was measured without a model; "
        "survey one with `theodolite survey MODEL --corpus CORPUS --out DIR`"
    )


def _explain_no_words(survey: SurveyData) -> str:
    units = str(survey.facts.get("units"))
    return (
        f"the units of {survey.model} on {survey.corpus} are {UNIT_LABELS.get(units, units)}, not words; "
        f"to count by words, run `{survey.command('--units', 'word')}`"
    )


def _explain_no_lengths(survey: SurveyData) -> str:
    return (
        f"the survey of {survey.model} was made by an older version, which did not count the words of documents; "
        f"repeat it with `{survey.command()}`"
    )


def _explain_no_sets(survey: SurveyData) -> str:
    folder = "DIR" if survey.folder is None else shlex.quote(str(survey.folder))
    return f"the survey of {survey.model} has no token sets; make them with `theodolite sets {folder}`"


def _explain_no_sums(survey: SurveyData) -> str:
    units = ("--units", str(survey.facts["units"])) if survey.facts.get("model") else ("--groups", "COLUMN")
    return (
        f"the survey of {survey.model} was made by an older version, which did not compute them; "
        f"repeat it with `{survey.command(*units)}`"
    )


def require_laboratory(verb: str, command: str) -> Need:
    """Return the need for folders written by a laboratory. `command` makes such a folder."""
    return Need(
        f"folders of `theodolite {verb}`",
        lambda survey: survey.facts.get("laboratory") == verb,
        lambda survey: f"{survey.folder or survey.model} is not such a folder; make one with `{command}`",
        reason=lambda survey: f"not a folder of `theodolite {verb}`",
        laboratory=verb,
    )


SURVEY = Need(
    "surveys",
    lambda s: "laboratory" not in s.facts and not s.facts.get("series"),
    lambda s: (
        f"{s.folder or s.model} is a folder of `theodolite {s.facts.get('laboratory', 'dynamics')}`; "
        "make a survey with `theodolite survey MODEL --corpus CORPUS --out DIR`"
    ),
    reason=lambda s: "not a survey",
)
SERIES_COMMAND = "theodolite dynamics MODEL --checkpoints 'runs/checkpoint-{step}' --corpus CORPUS --out DIR"
SERIES = Need(
    "series of checkpoints (`theodolite dynamics`)",
    lambda s: bool(s.facts.get("series")) and bool(s.facts["steps"]),
    lambda s: (
        f"{s.folder or s.model} {'has no step yet' if s.facts.get('series') else 'is not a series'}; "
        f"make one with `{SERIES_COMMAND}`"
    ),
    reason=lambda s: "not a series of checkpoints",
    laboratory="dynamics",
)
DIMENSION = Need(
    "series with the intrinsic dimension",
    lambda s: "series" in s.tables and bool(s.tables["series"]["twonn"].notna().any()),
    lambda s: (
        f"the series of {s.model} has it for no layer; make one with `{SERIES_COMMAND}`, or give "
        "dimension=True to the probe or callback of the training"
    ),
    reason=lambda s: "no intrinsic dimension",
)
ATTENTION = Need(
    "series with attention measures",
    lambda s: "attention" in s.tables,
    lambda s: f"the series of {s.model} has none; make one with `{SERIES_COMMAND}`",
    reason=lambda s: "no attention measures",
)
TRAINING = Need(
    "series with the loss of the training",
    lambda s: "training" in s.tables,
    lambda s: f"the series of {s.model} has no loss; a probe keeps it: `probe(model, step, loss=loss)`",
    reason=lambda s: "no loss",
)
BATCHES = Need(
    "series with the geometry of training batches",
    lambda s: "batches" in s.tables,
    lambda s: (
        f"the series of {s.model} has none; give training_batches=8 to the probe or callback of the training, "
        "and measure at least twice"
    ),
    reason=lambda s: "no training batches",
)
UNITS = Need(
    "surveys with units (text, or vectors measured with `--groups`)",
    lambda s: s.facts["units"] != "none",
    _explain_no_units,
)
MODEL = Need("surveys of a model", lambda s: s.facts.get("model") is not None, _explain_no_model)
WORDS = Need("surveys made with `--units word`", lambda s: s.facts["units"] == "word", _explain_no_words)
LENGTHS = Need(
    "surveys that count the words of documents",
    lambda s: bool(s.facts["corpus"].get("words_histogram")),
    _explain_no_lengths,
)
SUMS = Need("surveys with sums over text units and their errors", has_sums, _explain_no_sums)
TOKEN_SETS = Need("token sets in the survey's folder (`theodolite sets DIR`)", has_token_sets, _explain_no_sets)


def _require_kind(description: str, accepted: tuple[str, ...], command: str) -> Need:
    """Return the need for surveys of these kinds of model. `command` makes such a survey."""
    return Need(
        f"surveys of {description}",
        lambda survey: layers.survey_kind(survey) in accepted,
        lambda survey: (
            f"{survey.model} {layers.KIND_DESCRIPTIONS.get(layers.survey_kind(survey), 'is of another kind')}; "
            f"survey one with `{command}`"
        ),
        reason=layers.survey_kind,
    )


def has_contextuality(survey: SurveyData) -> bool:
    """Return whether the table of layers has self-similarity."""
    return "self_similarity" in survey.layers and bool(survey.layers["self_similarity"].notna().any())


def _requested_contextuality(survey: SurveyData) -> bool:
    return bool(survey.facts.get("settings", {}).get("contextuality"))


def _explain_no_contextuality(survey: SurveyData) -> str:
    if _requested_contextuality(survey):  # the same command again would not help
        why = explain_undefined(survey, str(survey.facts["populations"][0]), "self_similarity")
        return f"the survey of {survey.model} on {survey.corpus} was, but {why}; survey a larger corpus"
    return (
        f"the survey of {survey.model} was made without it; repeat it with `{survey.command('--contextuality')}`"
    )


TOKEN_LEVEL = _require_kind(
    "token-level text models", (layers.TOKENS,), "theodolite survey minilm-l6 --corpus CORPUS --out DIR"
)
CHARACTER_LEVEL = _require_kind(
    "character- or byte-level text models",
    (layers.CHARACTERS,),
    "theodolite survey google/byt5-small --corpus CORPUS --out DIR",
)
SPEECH_OR_VISION = _require_kind(
    "speech or vision models",
    (layers.SPEECH, layers.VISION),
    "theodolite survey whisper-tiny-en --corpus FOLDER_OF_AUDIO --out DIR",
)
CONVOLUTIONAL = _require_kind(
    "convolutional models",
    (layers.CONVOLUTION,),
    "theodolite survey resnet-50 --corpus pictures --out DIR",
)
TRANSFORMERS = _require_kind(
    "encoders and decoders",
    (layers.TOKENS, layers.CHARACTERS, layers.SPEECH, layers.VISION),
    "theodolite survey smollm2-135m --corpus CORPUS --out DIR",
)
CONTEXTUALITY = Need(
    "surveys made with `--contextuality`",
    has_contextuality,
    _explain_no_contextuality,
    reason=lambda s: (
        "self-similarity is undefined" if _requested_contextuality(s) else "surveyed without `--contextuality`"
    ),
)
