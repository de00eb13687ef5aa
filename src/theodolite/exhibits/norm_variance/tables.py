"""table1, table3, fits and sums: models, counts, all fits, and all sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from theodolite.exhibits.drawing import captions
from theodolite.exhibits.drawing.captions import join_sentences
from theodolite.exhibits.drawing.tables import make_table_plate
from theodolite.exhibits.exhibit import Plate, add_survey_column
from theodolite.exhibits.needs import MODEL, SUMS, UNITS
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.fits import make_fit_table
from theodolite.studies.norm_variance.profile import make_sum_table
from theodolite.studies.norm_variance.units import make_count_table, make_model_table
from theodolite.studies.survey_data import SurveyData, make_labels, middle_layer
from theodolite.text import format_scientific, format_short


@exhibit(
    "norm-variance/table1",
    title="Layers, dimensions and parameters of the models",
    kind="table",
    needs=[MODEL],
    reads=(),
)
def table1(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List layers, dimensions and parameters of each model."""
    data = make_model_table(surveys)
    shown = data.assign(params=[format_short(count, 3) for count in data["params"]]).astype(str)
    shown.columns = pd.Index(["Model", "Layers", "Dims.", "Params."])
    caption = "Layers (with the input layer, without a final norm), dimensions and parameters of each model."
    return make_table_plate(data, shown, caption)


@exhibit(
    "norm-variance/table3",
    title="|T| and |X|: numbers of units and vectors",
    kind="table",
    needs=[UNITS],
    options=("population",),
)
def table3(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """Count the units and the vectors of each survey."""
    data = make_count_table(surveys, make_labels(surveys), choice.population)
    shown = data.assign(
        **{name: [f"{count:,}" for count in data[name]] for name in ("types", "vectors", "frequent", "special")}
    )[["survey", "units", "types", "vectors", "frequent", "special"]]
    shown.columns = pd.Index(["Model", "Units", "|T|", "|X|", "frequent", "special"])
    caption = join_sentences(
        f"|T|: number of units. |X|: number of vectors. frequent: units with {captions.RANGE}.",
        "special: special units.",
        captions.describe_corpora(surveys),
        captions.describe_population(choice, surveys),
    )
    return make_table_plate(data, shown, caption)


def drop_repeated_populations(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows without populations that have the numbers of another of the survey, and a sentence on them.

    >>> table = pd.DataFrame({"survey": ["a", "a"], "population": ["all", "without-massive"], "slope": [1.0, 1.0]})
    >>> drop_repeated_populations(table)[1]
    'Not listed again: without-massive of a, which equals all.'
    """
    dropped, sentences = set[Any](), []
    for name, of_survey in rows.groupby("survey", sort=False):
        known: dict[str, pd.DataFrame] = {}
        for population, part in of_survey.groupby("population", sort=False):
            numbers = part.drop(columns="population").reset_index(drop=True)
            same = next((other for other, theirs in known.items() if theirs.equals(numbers)), None)
            if same is None:
                known[str(population)] = numbers
            else:
                dropped.add((name, population))
                sentences.append(f"{population} of {name}, which equals {same}")
    kept = [pair not in dropped for pair in zip(rows["survey"], rows["population"], strict=True)]
    return rows[kept], f"Not listed again: {'; '.join(sentences)}." if sentences else ""


def _join_tables(
    surveys: Sequence[SurveyData], layers: Sequence[int], make: Callable[..., pd.DataFrame]
) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """Return the tables of all surveys as one, and which rows are of the given layers, or else a middle layer."""
    named = list(zip(make_labels(surveys), surveys, strict=True))
    data = pd.concat(
        [add_survey_column(make(survey, layers=layers or None), name) for name, survey in named], ignore_index=True
    )
    shown = {name: layers or (middle_layer(survey),) for name, survey in named}
    rows = zip(data["survey"], data["layer"], strict=True)
    return data, np.array([layer in shown[name] for name, layer in rows], dtype=bool)


FITS_COLUMNS = "survey layer population fit variant filter specials slope interval r2 units".split()


@exhibit(
    "norm-variance/fits",
    title="All fits: with and without the filter and special units, biased and unbiased, with intervals",
    kind="table",
    needs=[UNITS],
    options=("layers",),
)
def fits_table(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List every fit of every layer. The formatted table has V on M at the chosen layers."""
    data, chosen = _join_tables(surveys, choice.layers, make_fit_table)
    caption = join_sentences(
        "Least-squares fits over units: V on M at",
        "the chosen layers." if choice.layers else "the middle layer.",
        "The .csv and .json formats have every fit and layer.",
        captions.describe_corpora(surveys),
        captions.describe_rare_fits(surveys),
        captions.describe_intervals(),
    )
    rows, repeated = drop_repeated_populations(data[(data["fit"] == "v_on_m") & chosen])
    return make_table_plate(data, _format_fits(rows), join_sentences(caption, repeated))


def _format_fits(rows: pd.DataFrame) -> pd.DataFrame:
    intervals = [
        f"[{format_scientific(a)}, {format_scientific(b)}]"
        for a, b in zip(rows["slope_low"], rows["slope_high"], strict=True)
    ]
    numbers = {name: [format_scientific(value) for value in rows[name]] for name in ("slope", "r2")}
    return rows.assign(interval=intervals, **numbers)[FITS_COLUMNS].astype(str)


SUMS_LABELS = {"m_of_q": "M/Q", "v_within_of_q": "V_W/Q", "v_between_of_q": "V_B/Q", "v_within_of_v": "V_W/V"}
SUMS_COLUMNS = "survey layer population variant filter specials units".split()


@exhibit(
    "norm-variance/sums",
    title="All sums and their ratios: with and without the filter and special units, biased and unbiased",
    kind="table",
    needs=[UNITS, SUMS],
    options=("layers",),
)
def sums_table(surveys: Sequence[SurveyData], choice: Choice) -> Plate:
    """List the sums of every layer. The formatted table has ratios at the chosen layers."""
    data, chosen = _join_tables(surveys, choice.layers, make_sum_table)
    caption = join_sentences(
        "Ratios of sums over all vectors ± one standard error, at",
        "the chosen layers." if choice.layers else "the middle layer.",
        "The .csv and .json formats also have the sums, and every layer.",
        captions.describe_corpora(surveys),
        "Errors are estimated by jackknife over groups of documents. The unbiased estimates have the errors of",
        "the biased ones.",
    )
    rows, repeated = drop_repeated_populations(data[chosen])
    return make_table_plate(data, _format_sums(rows), join_sentences(caption, repeated))


def _format_sums(rows: pd.DataFrame) -> pd.DataFrame:
    ratios = {
        label: [_format_with_error(*pair) for pair in zip(rows[name], rows[f"{name}_se"], strict=True)]
        for name, label in SUMS_LABELS.items()
    }
    units = ["–" if pd.isna(count) else f"{count:,}" for count in rows["units"]]
    return rows[SUMS_COLUMNS].assign(units=units, **ratios).astype(str)


def _format_with_error(value: float, error: float) -> str:
    """Return a number and its error, if it has one.

    >>> _format_with_error(0.61803, 0.0123), _format_with_error(0.5, float("nan"))
    ('0.618 ± 0.012', '0.5')
    """
    if np.isnan(value) or np.isnan(error):
        return format_scientific(value)
    return f"{format_scientific(value)} ± {format_scientific(error, 2)}"
