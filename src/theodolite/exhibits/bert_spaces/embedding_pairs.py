"""table2, table4, table5 and segments: pairs of tokens, positions and segments with extreme cosines."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from theodolite.exhibits.bert_spaces.weights import (
    POSITIONS,
    SEGMENTS,
    WEIGHTS,
    describe_models,
    describe_unlisted,
    make_token_table,
)
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData, get_tables
from theodolite.text import format_scientific

EACH, MOST = 5, 20  # rows of the formatted table; the .csv and .json formats have all


@exhibit(
    "bert-spaces/table2", title="Pairs of tokens with extreme cosines", kind="table", needs=[WEIGHTS], reads=()
)
def table2(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List the pairs of tokens with the largest cosine, the cosine nearest to 0, and the smallest cosine."""
    data = pd.concat(
        [add_survey_column(_read_cosines(survey), survey.model) for survey in surveys], ignore_index=True
    )
    first = data[data["rank"] <= EACH]
    shown = pd.DataFrame({"model": first["survey"], "cosines": first["which"], "token 1": first["left_name"]})
    shown["token 2"], shown["cosine"] = first["right_name"], _format_numbers(first["value"], 4)
    n = [int(get_tables(survey, ["pairs"])[0].query(WITHIN)["n"].iloc[0]) for survey in surveys]
    caption = join_sentences(
        "Pairs of tokens whose word vectors have the largest cosine, the cosine nearest to 0, or the smallest",
        f"cosine, of {', '.join(f'{count:,}' for count in n)} pairs, in float64.",
        *dict.fromkeys(describe_unlisted(survey) for survey in surveys),
        describe_models(surveys),
    )
    return make_token_table(data, _drop_single_model(shown, surveys), caption)


@exhibit(
    "bert-spaces/table4",
    title="Pairs of a token and a position with large cosines",
    kind="table",
    needs=[WEIGHTS, POSITIONS],
    reads=(),
)
def table4(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List pairs of a token and a position with a large cosine, with norms and distances."""
    data = pd.concat([add_survey_column(get_tables(s, ["close"])[0], s.model) for s in surveys], ignore_index=True)
    first = data.groupby("survey", sort=False).head(MOST)
    heads = {
        "cosine": "cosine",
        "token_norm": "token norm",
        "position_norm": "position norm",
        "distance": "distance",
        "largest_difference": "l∞ distance",
    }
    shown = pd.DataFrame(
        {"model": first["survey"], "token": first["name"], "position": first["position"].astype(str)}
    )
    shown = shown.assign(**{head: _format_numbers(first[column]) for column, head in heads.items()})
    counts = [
        f"{survey.model}: {found['beyond']:,} with |cosine| > {survey.facts['settings']['above']:g}"
        for survey in surveys
        if (found := survey.facts["found"])["beyond"] is not None
    ]
    caption = join_sentences(
        "Pairs of a word vector and a position vector with the largest |cosine|, with special and unused tokens;",
        f"at most {MOST} per model are shown. Number of pairs: {'; '.join(counts)}.",
        describe_models(surveys),
    )
    return make_token_table(data, _drop_single_model(shown, surveys), caption)


WITHIN = "left == 'words' and right == 'words' and metric == 'cosine'"


def _read_cosines(survey: SurveyData) -> pd.DataFrame:
    return get_tables(survey, ["extremes"])[0].query(WITHIN).reset_index(drop=True)


def _format_numbers(values: pd.Series, digits: int = 3) -> list[str]:
    return [format_scientific(float(value), digits) for value in values]


def _drop_single_model(shown: pd.DataFrame, surveys: Sequence[SurveyData]) -> pd.DataFrame:
    """Return the table without the column of models if there is only one model."""
    return (shown if len(surveys) > 1 else shown.drop(columns="model")).reset_index(drop=True)


@exhibit("bert-spaces/segments", title="The segment vectors", kind="table", needs=[WEIGHTS, SEGMENTS], reads=())
def segments(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List norms, cosine, dot product and distance of the segment vectors."""
    data = pd.concat(
        [add_survey_column(get_tables(s, ["segments"])[0], s.model) for s in surveys], ignore_index=True
    )
    heads = {"one_norm": "norm", "other_norm": "other norm", "cosine": "cosine", "dot": "dot product"}
    heads |= {"distance": "distance"}
    other = ["–" if pd.isna(value) else str(value) for value in data["other"]]
    shown = pd.DataFrame({"model": data["survey"], "segment": data["one"].astype(str), "and": other})
    shown = shown.assign(
        **{head: [format_scientific(float(v)) for v in data[column]] for column, head in heads.items()}
    )
    return make_token_table(
        data,
        shown,
        join_sentences("The vectors that are added to distinguish segments.", describe_models(surveys)),
    )


@exhibit(
    "bert-spaces/table5",
    title="Cosines of segment vectors with words and positions",
    kind="table",
    needs=[WEIGHTS, SEGMENTS],
    reads=(),
)
def table5(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List statistics of the segment vectors' cosines with words and positions."""
    data = pd.concat(
        [add_survey_column(get_tables(s, ["segments_against"])[0], s.model) for s in surveys], ignore_index=True
    )
    shown = pd.DataFrame(
        {
            "model": data["survey"],
            "segment": data["segment"].astype(str),
            "against": data["against"],
            "n": [f"{n:,}" for n in data["n"]],
            "mean": [format_scientific(v) for v in data["mean"]],
            "s.d.": [format_scientific(v) for v in data["sd"]],
            "mean |cos|": [format_scientific(v) for v in data["mean_abs"]],
            "smallest (with)": _format_with_name(data["smallest"], data["smallest_name"]),
            "largest (with)": _format_with_name(data["largest"], data["largest_name"]),
            "beyond": [f"{n:,}" for n in data["beyond"]],
        }
    )
    above = surveys[0].facts["settings"]["above"]
    caption = join_sentences(
        "Cosines of the segment vectors with all words and positions; the smallest and the largest are named.",
        f"beyond: number of pairs with |cosine| > {above:g}.",
        describe_models(surveys),
    )
    if len(surveys) == 1:
        shown = shown.drop(columns="model")
    return make_token_table(data, shown, caption)


def _format_with_name(values: pd.Series, names: pd.Series) -> list[str]:
    return [
        f"{format_scientific(float(value))} ({name})" if name is not None else "–"
        for value, name in zip(values, names, strict=True)
    ]
