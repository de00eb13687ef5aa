"""Captions and the sentences they are made of (models, corpora, units, positions, errors), and axis labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from theodolite.count_strata import describe_certain_units
from theodolite.exhibits.drawing.axes import clean_label
from theodolite.exhibits.drawing.layer_lines import has_errors, has_final_norm, has_stacks
from theodolite.measures.decomposition import FREQUENT
from theodolite.studies.choice import MIN_DOCUMENTS_FOR_SPECIALS, Choice
from theodolite.studies.norm_variance.profile import has_document_errors
from theodolite.studies.norm_variance.units import count_special_units
from theodolite.studies.rare_units import SHARE, find_min_count, has_units_without_vector
from theodolite.studies.survey_data import SurveyData
from theodolite.text import POPULATION_LABELS, UNIT_LABELS, join_words, pluralize

FIT_OPTIONS = ("layer", "population", "variant", "filter", "specials")
"""Options of exhibits that fit lines over units."""
Q, M, V = "$Q(X_t)$", "$M(X_t)$", "$V(X_t)$"
LOG_N = r"$\log_{10} n_t$"
BY_DOCUMENTS = ("mean_cosine", "mean_norm")
"""Columns whose errors come from a jackknife over groups of documents."""
RANGE = "1 ≤ log₁₀ n ≤ 5".replace(" ", "\N{NO-BREAK SPACE}")


def join_sentences(*sentences: str) -> str:
    """Join the sentences that are not empty."""
    return " ".join(sentence for sentence in sentences if sentence)


def describe_seeds(runs: Mapping[str, int]) -> str:
    """Say what is drawn of runs with several seeds, from the number of seeds of each.

    >>> describe_seeds({"small": 3, "large": 1})
    'small: mean and range of 3 seeds.'
    """
    several = {clean_label(run): count for run, count in runs.items() if count > 1}
    return join_sentences(*(f"{run}: mean and range of {pluralize(n, 'seed')}." for run, n in several.items()))


def describe_corpora(surveys: Sequence[SurveyData]) -> str:
    """Name the models and the corpora they read."""
    read: dict[tuple[str, int], list[str]] = {}
    for survey in surveys:
        models = read.setdefault((survey.corpus, survey.documents), [])
        if survey.model not in models:
            models.append(survey.model)
    sentences = [
        f"{_join_names(models)} on {_caption_name(corpus)} ({documents:,} documents)"
        if models != [corpus]
        else f"{_caption_name(corpus)} ({documents:,} vectors)"
        for (corpus, documents), models in read.items()
    ]
    return "; ".join(sentences) + "."


def describe_units(surveys: Sequence[SurveyData]) -> str:
    """State what the units are."""
    kinds = dict.fromkeys(str(survey.facts["units"]) for survey in surveys)
    return f"Units: {', '.join(UNIT_LABELS.get(kind, kind) for kind in kinds)}."


def describe_population(choice: Choice, surveys: Sequence[SurveyData] = ()) -> str:
    """State which positions are used, and how many of each survey are left out by layer."""
    named = () if choice.population == "all" else surveys
    counts = [text for survey in named if (text := _count_left_out(survey, choice.population))]
    left_out = f"Left out: {'; '.join(counts)}." if counts else ""
    label = POPULATION_LABELS.get(choice.population, choice.population)
    return join_sentences(f"Population: {label}.", left_out)


MOST_RUNS = 10
"""Counts that a caption lists by layer; with more of them it states their range."""


def _count_left_out(survey: SurveyData, population: str) -> str:
    """Return the number of positions that a population leaves out at the layers of a survey."""
    if not {"population", "layer", "n"} <= set(survey.layers.columns):
        return ""
    by_layer = {
        name: survey.layers[survey.layers["population"] == name].set_index("layer")["n"].dropna()
        for name in ("all", population)
    }
    left = (by_layer["all"] - by_layer[population]).dropna().astype(int)
    if left.empty:
        return ""
    runs: list[tuple[int, int, int]] = []  # count, first and last layer
    for layer, count in zip(left.index.tolist(), left.tolist(), strict=True):
        if runs and runs[-1][0] == count:
            runs[-1] = (count, runs[-1][1], int(layer))
        else:
            runs.append((count, int(layer), int(layer)))
    of = f"of {int(by_layer['all'].max()):,} positions of {_caption_name(survey.model)}"
    if len(runs) == 1:
        return f"{runs[0][0]:,} {of} at every layer" if runs[0][0] else f"none {of}"
    if len(runs) > MOST_RUNS:
        return f"{left.min():,} to {left.max():,} {of}, by layer"
    listed = [
        f"{count:,} at layer {first}" + (f" to {last}" if last > first else "") for count, first, last in runs
    ]
    return f"{', '.join(listed)}, {of}"


def describe_massive(surveys: Sequence[SurveyData], choice: Choice) -> str:
    """State how many massive positions are included, if any."""
    counts = []
    for survey in surveys:
        rows = survey.layers[survey.layers["population"] == choice.population]
        most = rows["massive"].max() if len(rows) else 0
        if most > 0:
            counts.append(f"{int(most):,} in {_caption_name(survey.model)}")
    if not counts:
        return ""
    return f"Massive positions are included, per layer up to {', '.join(counts)} (see --population)."


def describe_variant(choice: Choice) -> str:
    """State that M and V are unbiased, if they are."""
    return "M and V are unbiased: M − V/(n − 1) and nV/(n − 1)." if choice.variant == "unbiased" else ""


def describe_fit_units(
    surveys: Sequence[SurveyData],
    choice: Choice,
    verb: str = "Fits use",
    *,
    summed: bool = False,
    counted: bool = False,
) -> str:
    """State which units are used, and whether special and rare units are among them.

    `summed`: sums over all units include an estimate for units without a vector, which `describe_estimated_share`
    states. `counted`: only n is used, which all units have.
    """
    frequent = choice.with_filter().filter == "frequent"
    units = f"units with {RANGE}" if frequent else "all units"
    if choice.variant == "unbiased" and choice.filter == "all":
        units = "units with n > 1"
    rare = "" if counted else _describe_rare(surveys, FREQUENT[0] if frequent else 1)
    if rare and frequent:
        units += f" ({describe_certain_units(rare)})"
    elif rare and not summed:
        units += f" that have M and V (of those with 1 < n < {rare}, a sample, so numbers over all units differ)"
    return f"{verb} {units}; {_describe_specials(surveys, choice)}."


def describe_drawn_sample(surveys: Sequence[SurveyData]) -> str:
    """State that only some rare units are drawn, if others have no M and V."""
    rare = _describe_rare(surveys, 1)
    return f"Of units with 1 < n < {rare}, only a sample is drawn: the others have no M and V." if rare else ""


def describe_rare_fits(surveys: Sequence[SurveyData]) -> str:
    """State which fits lack units that have no M and V."""
    rare = _describe_rare(surveys, 1)
    return (
        f"Of units with 1 < n < {rare}, only a sample has M and V: fits over all units would differ. Fits over "
        f"frequent units use {describe_certain_units(rare)}."
        if rare
        else ""
    )


def _describe_rare(surveys: Sequence[SurveyData], above: int) -> str:
    """Return the number of occurrences below which units have no vector, if it is above a number; "" if not."""
    counts = {
        _caption_name(survey.model): find_min_count(survey.facts)
        for survey in surveys
        if has_units_without_vector(survey.layers) and find_min_count(survey.facts) > above
    }
    if len(counts) == len(surveys) and len(set(counts.values())) == 1:
        return str(next(iter(counts.values())))
    return ", ".join(f"{count} ({model})" for model, count in counts.items())


def describe_sum_errors(surveys: Sequence[SurveyData], choice: Choice, mark: str = "Strip") -> str:
    """State how the errors of sums were estimated. `mark` is what shows them in the figure."""
    biased = " of the biased estimates" if choice.variant == "unbiased" else ""
    older = [_caption_name(survey.model) for survey in surveys if not has_document_errors(survey)]
    without = f"{join_words(older)}, which an older version surveyed, {'has' if len(older) == 1 else 'have'} none."
    return join_sentences(
        f"{mark}: ±1.96 standard errors{biased}, by jackknife over groups of documents.",
        without if older else "",
        describe_estimated_share(surveys, choice),
    )


def describe_estimated_share(surveys: Sequence[SurveyData], choice: Choice) -> str:
    """State the largest share of positions whose V_W is estimated; empty if it is exact."""
    if choice.with_filter().filter == "frequent":
        return ""  # frequent units have vectors
    shares = [
        survey.layers.loc[survey.layers["population"] == choice.population, SHARE].max()
        for survey in surveys
        if SHARE in survey.layers
    ]
    largest = max((float(share) for share in shares if share > 0), default=0.0)
    return (
        f"V_W and V_B: {100 * largest:.2g}% of positions estimated from a sample of rare tokens."
        if largest
        else ""
    )


def describe_intervals() -> str:
    """State what the intervals are."""
    return "Intervals: 95%, by bootstrap over units."


def compose_layer_caption(
    surveys: Sequence[SurveyData],
    choice: Choice,
    tables: Sequence[pd.DataFrame],
    column: str,
    first: str,
    *sentences: str,
    joined: bool = True,
) -> str:
    """Return the caption of a figure of one column by layer."""
    method = ", by jackknife over groups of documents" if column in BY_DOCUMENTS else ""
    return join_sentences(
        first,
        describe_corpora(surveys),
        describe_population(choice, surveys),
        describe_massive(surveys, choice),
        *sentences,
        f"Strip: ±1.96 standard errors{method}." if has_errors(tables, column) else "",
        "Thin line: from the encoder of a model to its decoder." if joined and has_stacks(tables) else "",
        "Open marker: the state after the final norm." if has_final_norm(tables) else "",
    )


def compose_fit_caption(
    surveys: Sequence[SurveyData], choice: Choice, first: str, *sentences: str, positions: str = ""
) -> str:
    """Return the caption of a figure of units and fitted lines. `positions` replaces the population."""
    filtered = (choice.filter, choice.variant) != ("all", "biased")
    excludes = any(count_special_units(survey) and not choice.includes_specials(survey) for survey in surveys)
    return join_sentences(
        first,
        describe_corpora(surveys),
        describe_units(surveys),
        positions or join_sentences(describe_population(choice, surveys), describe_massive(surveys, choice)),
        describe_variant(choice),
        describe_fit_units(surveys, choice),
        "Pale: units not in the fit." if filtered else "",
        describe_drawn_sample(surveys) if choice.with_filter().filter == "frequent" else "",
        "Diamonds: special units, which are excluded." if excludes else "",
        *sentences,
    )


def compose_unit_layers_caption(
    surveys: Sequence[SurveyData], choice: Choice, tables: Sequence[pd.DataFrame], first: str, *sentences: str
) -> str:
    """Return the caption of a figure of numbers over units by layer."""
    return join_sentences(
        first,
        describe_corpora(surveys),
        describe_units(surveys),
        describe_population(choice, surveys),
        describe_massive(surveys, choice),
        describe_variant(choice),
        *sentences,
        "Open marker: the state after the final norm." if has_final_norm(tables) else "",
    )


def _describe_specials(surveys: Sequence[SurveyData], choice: Choice) -> str:
    with_specials = [survey for survey in surveys if count_special_units(survey)]
    if not with_specials:
        return "there are no special units"
    included = [survey.model for survey in with_specials if choice.includes_specials(survey)]
    excluded = [survey.model for survey in with_specials if not choice.includes_specials(survey)]
    reason = f" (fewer than {MIN_DOCUMENTS_FOR_SPECIALS:,} documents)" if choice.specials == "auto" else ""
    if not excluded:
        return "special units are included"
    if not included:
        models = "" if len(excluded) == len(surveys) else f" of {_join_names(excluded)}"
        return f"special units{models} are excluded{reason}"
    return (
        f"special units of {_join_names(excluded)} are excluded{reason}, those of {_join_names(included)} included"
    )


def _join_names(names: Sequence[str]) -> str:
    return join_words([_caption_name(name) for name in dict.fromkeys(names)])


def _caption_name(name: str) -> str:
    return clean_label(name).replace(r"\$", "$")  # captions are drawn literally
