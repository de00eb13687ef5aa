"""table2: extreme pairs of tokens; table4: pairs of a token and a position that lean the same way."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from theodolite.exhibits.bert_spaces.weighed import POSITIONS, WEIGHED, left_out, models, plate_of_tokens
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import number
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed

EACH, MOST = 5, 20  # rows that a printed table shows; .csv and .json have all


@exhibit("bert-spaces/table2", title="Extreme pairs of tokens", kind="table", needs=[WEIGHED], reads=())
def table2(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List the pairs of tokens with the largest cosine, nearest to 0, and smallest."""
    data = pd.concat([named(_cosines(survey), survey.model) for survey in surveys], ignore_index=True)
    first = data[data["rank"] <= EACH]
    shown = pd.DataFrame({"model": first["survey"], "cosines": first["which"], "token 1": first["left_name"]})
    shown["token 2"], shown["cosine"] = first["right_name"], _numbers(first["value"], 4)
    n = [int(tables_of(survey, ["pairs"])[0].query(WITHIN)["n"].iloc[0]) for survey in surveys]
    told = caption(
        "Pairs of tokens whose word vectors have the largest cosine, the one nearest to 0 and the smallest, of",
        f"{', '.join(f'{count:,}' for count in n)} pairs, in float64.",
        left_out(surveys[0]),
        models(surveys),
    )
    return plate_of_tokens(data, _alone(shown, surveys), told)


@exhibit(
    "bert-spaces/table4",
    title="Pairs of a token and a position of large cosine",
    kind="table",
    needs=[WEIGHED, POSITIONS],
    reads=(),
)
def table4(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List pairs of a token and a position above a cosine, with norms and distances."""
    data = pd.concat([named(tables_of(s, ["close"])[0], s.model) for s in surveys], ignore_index=True)
    first = data.groupby("survey", sort=False).head(MOST)
    heads = {
        "cosine": "cosine",
        "token_norm": "token's norm",
        "position_norm": "position's norm",
        "distance": "distance",
        "largest_difference": "l∞ distance",
    }
    shown = pd.DataFrame(
        {"model": first["survey"], "token": first["name"], "position": first["position"].astype(str)}
    )
    shown = shown.assign(**{head: _numbers(first[column]) for column, head in heads.items()})
    counts = [
        f"{survey.model}: {found['beyond']:,} with |cosine| > {survey.facts['settings']['above']:g}"
        for survey in surveys
        if (found := survey.facts["found"])["beyond"] is not None
    ]
    told = caption(
        "Pairs of a token's word vector and a position's vector of the largest |cosine|, special and unused",
        f"tokens among them; at most {MOST} a model are shown. Pairs: {'; '.join(counts)}.",
        models(surveys),
    )
    return plate_of_tokens(data, _alone(shown, surveys), told)


WITHIN = "left == 'words' and right == 'words' and metric == 'cosine'"


def _cosines(survey: Surveyed) -> pd.DataFrame:
    return tables_of(survey, ["extremes"])[0].query(WITHIN).reset_index(drop=True)


def _numbers(values: pd.Series, digits: int = 3) -> list[str]:
    return [number(float(value), digits) for value in values]


def _alone(shown: pd.DataFrame, surveys: Sequence[Surveyed]) -> pd.DataFrame:
    """Return the table without the model's name where there is one model."""
    return (shown if len(surveys) > 1 else shown.drop(columns="model")).reset_index(drop=True)
