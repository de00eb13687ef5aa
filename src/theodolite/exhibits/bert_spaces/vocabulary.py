"""vocabulary and weights: tokens by kind, and parameters by part of the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from theodolite.exhibits.bert_spaces.weights import WEIGHTS, describe_models, make_token_table
from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables

LONGEST = 46  # characters of examples; more would be cut in the middle of the cell


@exhibit(
    "bert-spaces/vocabulary", title="Tokens of the vocabulary by kind", kind="table", needs=[WEIGHTS], reads=()
)
def vocabulary(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List the number of tokens of each kind, their ids, and examples."""
    found = [get_tables(survey, ["vocabulary"])[0] for survey in surveys]
    data = pd.concat(found, ignore_index=True).drop_duplicates(["model", "kind"]).reset_index(drop=True)
    shown = pd.DataFrame(
        {
            "model": data["model"],
            "kind": data["kind"],
            "tokens": [f"{n:,}" for n in data["tokens"]],
            "%": [f"{100 * share:.1f}" for share in data["share"]],
            "ids": [_format_range(*pair) for pair in zip(data["first"], data["last"], strict=True)],
            "longest run": [
                _format_range(*pair) for pair in zip(data["run_first"], data["run_last"], strict=True)
            ],
            "examples": [shorten_list(text) for text in data["examples"]],
        }
    )
    caption = join_sentences(
        "Tokens by kind. Starts begin a word: they lack the mark of a continuation (##) or have the mark of a",
        "space, depending on the vocabulary. With marks of spaces, a word after punctuation has no mark either.",
        *(_describe_vocabulary(name, counts) for survey in surveys for name, counts in _get_vocabularies(survey)),
        *(_describe_overlap(survey) for survey in surveys),
    )
    return make_token_table(data, shown, caption)


@exhibit("bert-spaces/weights", title="Parameters by part of the model", kind="table", needs=[WEIGHTS], reads=())
def weights(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List the number of parameters of each part."""
    data = pd.concat([add_survey_column(get_tables(s, ["parts"])[0], s.model) for s in surveys], ignore_index=True)
    shown = pd.DataFrame(
        {
            "model": data["survey"],
            "part": data["part"],
            "detail": data["detail"],
            "tensors": data["tensors"].astype(str),
            "per block": ["–" if pd.isna(n) else f"{n:,}" for n in data["a_block"]],
            "parameters": [f"{n:,}" for n in data["parameters"]],
            "%": [f"{100 * share:.2f}" for share in data["share"]],
        }
    )
    if len(surveys) == 1:
        shown = shown.drop(columns="model")
    sums = data.groupby("survey", sort=False)["parameters"].sum()
    caption = join_sentences(
        "Parameters by part of the model, without a head:",
        f"{'; '.join(f'{name} {total:,}' for name, total in sums.items())}.",
        "Weights and biases are counted together. A tensor that two parts share is counted once.",
        describe_models(surveys),
    )
    return make_token_table(data, shown, caption)


def shorten_list(text: str, longest: int = LONGEST) -> str:
    """Return as many of the tokens in a list separated by spaces as fit; a token that does not fit is omitted.

    >>> shorten_list("the volunteer vince", 14), shorten_list("the volunteer vince", 19)
    ('the volunteer …', 'the volunteer vince')
    """
    tokens = clean_label(text, max(len(text), 1)).replace(r"\$", "$").split(" ")
    kept = [token for place, token in enumerate(tokens) if len(" ".join(tokens[: place + 1])) <= longest]
    return " ".join(kept) + (" …" if len(kept) < len(tokens) else "")


def _format_range(first: int, last: int) -> str:
    return f"{first}–{last}" if first != last else str(first)


def _get_vocabularies(survey: SurveyData) -> list[tuple[str, dict[str, Any]]]:
    found = survey.facts["found"]
    other = found.get("other_vocabulary")
    return [(survey.model, found["vocabulary"]), *([(other["name"], other)] if other else [])]


def _describe_vocabulary(name: str, counts: dict[str, Any]) -> str:
    marked = counts["continuations_share"]
    share = "no marks" if marked is None else f"{marked:.1%} continuations by their marks"
    return f"{name}: {share}, {counts['alphanumeric_share']:.1%} alphanumeric without marks."


def _describe_overlap(survey: SurveyData) -> str:
    """State the overlap of two vocabularies, if two were compared."""
    if "overlap" not in survey.tables:
        return ""
    rows = survey.tables["overlap"].query("of == 'all'").to_dict("records")
    exact, lower = (
        {str(name): value for name, value in row.items()} for row in rows
    )  # as spelled, and in lower case
    other = survey.facts["found"]["other_vocabulary"]["name"]
    return (
        f"{survey.model} and {other} share {exact['both']:,} tokens ({exact['share_of_one']:.1%} of the first, "
        f"{exact['share_of_other']:.1%} of the second), {lower['both']:,} in lower case."
    )
