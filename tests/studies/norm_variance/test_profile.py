"""The numbers of each layer, against the vectors themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.synthetic_surveys import NUMBERS, compute_sums, make_survey, remove_units, select_unit_sets

from theodolite.errors import InputError
from theodolite.measures.resampling import PARTS
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.profile import (
    JACKKNIFE,
    NO_ERRORS,
    RATIOS,
    SINGLE_OCCURRENCES,
    SUM_COLUMNS,
    column_prefix,
    has_sums,
    make_sum_table,
    profile,
    tradeoff,
)
from theodolite.studies.norm_variance.units import select_units
from theodolite.studies.survey_data import SurveyData

MADE = make_survey()
ROUNDING = 1e-9


@pytest.mark.parametrize("population", ["all", "without-first"])
@pytest.mark.parametrize(
    ("filter", "specials", "of"),
    [
        ("frequent", "kept", "filtered_"),
        ("frequent", "left-out", "text_"),
        ("frequent", "auto", "text_"),
        ("all", "kept", ""),
        ("all", "left-out", "unfiltered_text_"),
        ("all", "auto", "unfiltered_text_"),
    ],
)
def test_the_decomposition_equals_that_of_the_vectors(
    population: str,
    filter: str,  # noqa: A002
    specials: str,
    of: str,
) -> None:
    choice = Choice(population, filter=filter, specials=specials)
    table = profile(MADE.survey, choice)
    assert column_prefix(MADE.survey, choice) == of
    assert list(table["layer"]) == [0, 1, 2]
    for row in table.to_dict("records"):
        parts = compute_sums(select_unit_sets(MADE.vectors[row["layer"], population])[of])
        assert {part: row[part] for part in PARTS} == pytest.approx(parts, rel=ROUNDING)
        for name, (part, under) in RATIOS.items():
            assert row[name] == pytest.approx(parts[part] / parts[under], rel=ROUNDING)
        assert row["m_of_q"] + row["v_within_of_q"] + row["v_between_of_q"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("choice", "times"),
    [
        (Choice(filter="all", specials="kept"), 1),
        (Choice(specials="kept"), 2),
        (Choice(), 3),
        (Choice(filter="all"), 4),
    ],
)
def test_errors_are_those_of_the_same_units(choice: Choice, times: int) -> None:
    table = profile(MADE.survey, choice)
    for number, name in enumerate(NUMBERS, 1):
        assert table[f"{name}_se"].to_numpy() == pytest.approx(np.full(3, 0.01 * times * number)), name
    assert table["v_of_q_se"].equals(table["m_of_q_se"])
    assert table["v_between_of_v_se"].equals(table["v_within_of_v_se"])


def test_errors_of_an_older_version_over_units_are_not_shown() -> None:
    """Only Q, M, V and M/Q of all units had errors over groups of documents."""
    old = SurveyData(MADE.survey.facts | {"formulas": {"layers": {}}}, MADE.survey.tables)
    everything, filtered = profile(old, Choice(filter="all", specials="kept")), profile(old, Choice())
    shown = {name for name in (*PARTS, *RATIOS) if everything[f"{name}_se"].notna().all()}
    assert shown == {"q", "m", "v", "m_of_q", "v_of_q"}
    assert filtered[[f"{name}_se" for name in (*PARTS, *RATIOS)]].isna().all(axis=None)
    table = make_sum_table(old).query("variant == 'biased'")
    assert set(table["reason"]) == {NO_ERRORS}
    assert table["errors"].isna().all()
    assert table["v_within"].notna().all()


def test_special_units_are_kept_for_many_documents_and_if_none_exist() -> None:
    assert column_prefix(make_survey(documents=100_000).survey, Choice()) == "filtered_"
    units = MADE.survey.units.assign(special=False)
    plain = SurveyData(MADE.survey.facts, MADE.survey.tables | {"units": units})
    assert column_prefix(plain, Choice()) == "filtered_"
    assert column_prefix(plain, Choice(filter="all")) == ""


def test_a_survey_older_than_the_columns_is_recognised() -> None:
    layers = MADE.survey.layers
    old = layers.drop(columns=[name for name in layers if "text_" in name or name.endswith("of_q_se")])
    assert has_sums(MADE.survey)
    assert not has_sums(SurveyData(MADE.survey.facts, MADE.survey.tables | {"layers": old}))


@pytest.mark.parametrize("specials", ["kept", "left-out"])
def test_the_unbiased_decomposition_adds_up_to_q(specials: str) -> None:
    made = [Choice(variant=variant, specials=specials) for variant in ("biased", "unbiased")]
    biased, unbiased = (profile(MADE.survey, choice) for choice in made)
    assert unbiased["q"].to_numpy() == pytest.approx(biased["q"].to_numpy())
    total = unbiased["m"] + unbiased["v_within"] + unbiased["v_between"]
    assert total.to_numpy() == pytest.approx(biased["q"].to_numpy())
    assert (unbiased["v_within"] > biased["v_within"]).all()
    assert (unbiased["v_between"] < biased["v_between"]).all()


@pytest.mark.parametrize("specials", ["kept", "left-out"])
@pytest.mark.slow
def test_the_unbiased_decomposition_is_right_on_average_and_the_plain_one_is_not(specials: str) -> None:
    """Forty units of known mean and spread, ten occurrences each, drawn 60 times; two outliers may be excluded."""
    rng = np.random.default_rng(1)
    means = rng.normal(0, 0.5, (40, 3)) + 1
    means[:2] += 2
    names, known = [*("[CLS]", "[SEP]"), *(f"w{i}" for i in range(38))], means
    means = means if specials == "kept" else means[2:]
    centre = means.mean(0)
    true = {"m": (centre**2).sum(), "v_within": 3.0, "v_between": ((means - centre) ** 2).sum(1).mean()}
    found: dict[str, list[dict[str, float]]] = {"biased": [], "unbiased": []}
    base = make_survey(layers=1, units=40, populations=("all",)).survey
    for _ in range(60):
        drawn = {name: mean + rng.normal(size=(10, 3)) for name, mean in zip(names, known, strict=True)}
        v = np.array([x.var(axis=0, ddof=1).sum() for x in drawn.values()])
        q = np.array([(x**2).sum(1).mean() for x in drawn.values()])
        tokens = base.tokens.assign(unit=list(drawn), n=10, q=q, v=0.9 * v, m=q - 0.9 * v, v_unbiased=v)
        numbers = {of: compute_sums(units) for of, units in select_unit_sets(drawn).items()}
        named = {f"{of}{part}": value for of, parts in numbers.items() for part, value in parts.items()}
        layers = base.layers.assign(**named)
        survey = replace(base, tables=base.tables | {"tokens": tokens, "layers": layers})
        for variant, rows in found.items():
            rows.append(profile(survey, Choice(variant=variant, specials=specials)).iloc[0][list(true)].to_dict())
    error = {
        variant: {part: np.mean([row[part] for row in rows]) - value for part, value in true.items()}
        for variant, rows in found.items()
    }
    scatter = {part: np.std([row[part] for row in found["unbiased"]]) / np.sqrt(60) for part in true}
    assert all(abs(error["unbiased"][part]) < 4 * scatter[part] for part in true)
    assert abs(error["biased"]["v_between"]) > 6 * scatter["v_between"]


def test_the_unbiased_decomposition_of_units_that_occur_once_is_rejected() -> None:
    with pytest.raises(InputError, match=r"tiny some units occur once.*use --filter frequent"):
        profile(MADE.survey, Choice(variant="unbiased", filter="all"))


def test_an_excluded_special_unit_may_occur_once() -> None:
    """Each of the others occurs twice or more: only sums with the special one have no unbiased estimate."""
    often, first = make_survey(layers=1, units=20).survey, Choice(variant="unbiased", filter="all")
    once = often.tokens.assign(n=often.tokens["n"].where(often.tokens["unit"] != "[SEP]", 1))
    survey = SurveyData(often.facts, often.tables | {"tokens": once})
    assert profile(survey, first)["v_within"].notna().all()
    with pytest.raises(InputError, match="occur once"):
        profile(survey, replace(first, specials="kept"))


def test_the_table_of_sums_has_every_version() -> None:
    table = make_sum_table(MADE.survey)
    assert list(table.columns) == SUM_COLUMNS
    keys = ["layer", "population", "variant", "filter", "specials"]
    assert len(table) == len(table.drop_duplicates(keys)) == 3 * 2 * 8
    for row in table.query("variant == 'biased'").to_dict("records"):
        choice = Choice(row["population"], "biased", row["filter"], row["specials"])
        of = column_prefix(MADE.survey, choice)
        units = select_unit_sets(MADE.vectors[row["layer"], row["population"]])[of]
        assert {part: row[part] for part in PARTS} == pytest.approx(compute_sums(units), rel=ROUNDING)
        assert row["v_within_of_v"] == pytest.approx(row["v_within"] / row["v"])
        assert row["units"] == len(units)
        assert row["errors"] == JACKKNIFE
        assert row["reason"] is None
        assert row["m_of_q_se"] > 0
    undefined = table.query("variant == 'unbiased' and filter == 'all'")
    assert undefined["m"].isna().all()
    assert undefined["q"].notna().all()
    assert set(undefined["reason"]) == {SINGLE_OCCURRENCES}
    selected = table.query("variant == 'unbiased' and filter == 'frequent' and population == 'all'")
    mine = profile(MADE.survey, Choice(variant="unbiased"))
    assert selected.query("specials == 'left-out'")["v_between"].tolist() == mine["v_between"].tolist()
    assert set(make_sum_table(MADE.survey, layers=[1])["layer"]) == {1}


def test_the_table_of_sums_gives_a_reason_for_missing_numbers() -> None:
    layers = MADE.survey.layers.assign(text_q=np.nan, undefined='{"text_q": "fewer than three"}')
    table = make_sum_table(SurveyData(MADE.survey.facts, MADE.survey.tables | {"layers": layers}))
    lacking = table.query("filter == 'frequent' and specials == 'left-out'")
    assert set(lacking["reason"]) == {"fewer than three"}
    assert table.query("filter == 'frequent' and specials == 'kept'")["reason"].isna().all()


@pytest.mark.parametrize("variant", ["biased", "unbiased"])
def test_the_slope_is_minus_one_plus_the_slope_of_q_on_m(variant: str) -> None:
    choice = Choice(variant=variant)
    table = tradeoff(MADE.survey, choice)
    assert table["slope"].to_numpy() == pytest.approx(table["identity"].to_numpy(), rel=ROUNDING)
    for row in table.to_dict("records"):
        used = select_units(MADE.survey, row["layer"], choice).query("used")
        assert row["q_cv"] == pytest.approx(used["q"].std(ddof=0) / used["q"].mean())


def test_a_survey_without_units_has_empty_rows() -> None:
    survey = remove_units(MADE)
    for table in (profile(survey, Choice()), tradeoff(survey, Choice())):
        assert list(table["layer"]) == [0, 1, 2]
        assert table.select_dtypes("float").drop(columns="units", errors="ignore").isna().all().all()
    assert profile(survey, Choice(variant="unbiased"))["v_between"].isna().all()
