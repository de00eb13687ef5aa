"""vocabulary: what the tokens are, by how they are spelled; weights: where the parameters are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from theodolite.exhibits.bert_spaces.weighed import WEIGHED, models, plate_of_tokens
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import plain
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed

LONGEST = 60


@exhibit(
    "bert-spaces/vocabulary", title="The structure of the vocabulary", kind="table", needs=[WEIGHED], reads=()
)
def vocabulary(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List how many tokens of each kind there are, where, and a few of them."""
    found = [tables_of(survey, ["vocabulary"])[0] for survey in surveys]
    data = pd.concat(found, ignore_index=True).drop_duplicates(["model", "kind"]).reset_index(drop=True)
    shown = pd.DataFrame(
        {
            "model": data["model"],
            "kind": data["kind"],
            "tokens": [f"{n:,}" for n in data["tokens"]],
            "%": [f"{100 * share:.1f}" for share in data["share"]],
            "ids": [_range(*pair) for pair in zip(data["first"], data["last"], strict=True)],
            "longest run": [_range(*pair) for pair in zip(data["run_first"], data["run_last"], strict=True)],
            "examples": [plain(text, LONGEST).replace(r"\$", "$") for text in data["examples"]],
        }
    )
    told = caption(
        "Tokens by kind. Starts begin a word: they lack the mark of a continuation (##), or bear that of a space,",
        "whichever the vocabulary has; in the latter, text after punctuation has no mark either.",
        *(_counted(name, counts) for survey in surveys for name, counts in _vocabularies(survey)),
        *(_overlap(survey) for survey in surveys),
    )
    return plate_of_tokens(data, shown, told)


@exhibit("bert-spaces/weights", title="Parameters by part", kind="table", needs=[WEIGHED], reads=())
def weights(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List how many parameters each part has."""
    data = pd.concat([named(tables_of(s, ["parts"])[0], s.model) for s in surveys], ignore_index=True)
    shown = pd.DataFrame(
        {
            "model": data["survey"],
            "part": data["part"],
            "of it": data["detail"],
            "tensors": data["tensors"].astype(str),
            "in a block": ["–" if pd.isna(n) else f"{n:,}" for n in data["a_block"]],
            "parameters": [f"{n:,}" for n in data["parameters"]],
            "%": [f"{100 * share:.2f}" for share in data["share"]],
        }
    )
    if len(surveys) == 1:
        shown = shown.drop(columns="model")
    sums = data.groupby("survey", sort=False)["parameters"].sum()
    told = caption(
        f"Parameters by part, without a head: {'; '.join(f'{name} {total:,}' for name, total in sums.items())}.",
        "Weights and biases are counted together; a tensor that two parts share once.",
        models(surveys),
    )
    return plate_of_tokens(data, shown, told)


def _range(first: int, last: int) -> str:
    return f"{first}–{last}" if first != last else str(first)


def _vocabularies(survey: Surveyed) -> list[tuple[str, dict[str, Any]]]:
    found = survey.facts["found"]
    other = found.get("other_vocabulary")
    return [(survey.model, found["vocabulary"]), *([(other["name"], other)] if other else [])]


def _counted(name: str, counts: dict[str, Any]) -> str:
    marked = counts["continuations_share"]
    told = "no marks" if marked is None else f"{marked:.1%} continuations by their marks"
    return f"{name}: {told}, {counts['alphanumeric_share']:.1%} alphanumeric without them."


def _overlap(survey: Surveyed) -> str:
    """Say how far two vocabularies are the same, where two were compared."""
    if "overlap" not in survey.tables:
        return ""
    rows = survey.tables["overlap"].query("of == 'all'").to_dict("records")
    whole, lower = ({str(name): value for name, value in row.items()} for row in rows)  # as read, in lower case
    other = survey.facts["found"]["other_vocabulary"]["name"]
    return (
        f"{survey.model} and {other} share {whole['both']:,} tokens ({whole['share_of_one']:.1%} of the one, "
        f"{whole['share_of_other']:.1%} of the other), {lower['both']:,} in lower case."
    )
