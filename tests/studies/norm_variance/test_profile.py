"""What is said of each layer, against the vectors themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.made_up import emptied, made_up, whole

from theodolite.errors import InputError
from theodolite.studies.choice import Choice
from theodolite.studies.norm_variance.points import points
from theodolite.studies.norm_variance.profile import PARTS, RATIOS, profile, tradeoff

MADE = made_up()
ROUNDING = 1e-9


@pytest.mark.parametrize("population", ["all", "without-first"])
@pytest.mark.parametrize("filter", ["frequent", "all"])
def test_the_makeup_is_that_of_the_vectors(population: str, filter: str) -> None:  # noqa: A002
    table = profile(MADE.survey, Choice(population, filter=filter))
    assert list(table["layer"]) == [0, 1, 2]
    for row in table.to_dict("records"):
        vectors = MADE.vectors[row["layer"], population]
        parts = whole({unit: x for unit, x in vectors.items() if filter == "all" or len(x) >= 10})
        assert {part: row[part] for part in PARTS} == pytest.approx(parts, rel=ROUNDING)
        for name, (part, of) in RATIOS.items():
            assert row[name] == pytest.approx(parts[part] / parts[of], rel=ROUNDING)
        assert row["m_of_q"] + row["v_within_of_q"] + row["v_between_of_q"] == pytest.approx(1)


def test_errors_are_there_only_where_no_unit_is_filtered_out() -> None:
    assert profile(MADE.survey, Choice(filter="all"))["q_se"].eq(0.1).all()
    assert profile(MADE.survey, Choice())["q_se"].isna().all()


def test_the_unbiased_makeup_still_adds_up_to_q() -> None:
    biased, unbiased = (profile(MADE.survey, Choice(variant=variant)) for variant in ("biased", "unbiased"))
    assert unbiased["q"].to_numpy() == pytest.approx(biased["q"].to_numpy())
    total = unbiased["m"] + unbiased["v_within"] + unbiased["v_between"]
    assert total.to_numpy() == pytest.approx(biased["q"].to_numpy())
    assert (unbiased["v_within"] > biased["v_within"]).all()
    assert (unbiased["v_between"] < biased["v_between"]).all()


def test_the_unbiased_makeup_is_right_on_average_and_the_other_is_not() -> None:
    """Forty units of known mean and spread, ten occurrences each, drawn 60 times."""
    rng = np.random.default_rng(1)
    means = rng.normal(0, 0.5, (40, 3)) + 1
    centre = means.mean(0)
    true = {"m": (centre**2).sum(), "v_within": 3.0, "v_between": ((means - centre) ** 2).sum(1).mean()}
    found: dict[str, list[dict[str, float]]] = {"biased": [], "unbiased": []}
    base = made_up(layers=1, units=40, populations=("all",)).survey
    for _ in range(60):
        drawn = {f"w{i}": mean + rng.normal(size=(10, 3)) for i, mean in enumerate(means)}
        v = np.array([x.var(axis=0, ddof=1).sum() for x in drawn.values()])
        q = np.array([(x**2).sum(1).mean() for x in drawn.values()])
        tokens = base.tokens.assign(unit=list(drawn), n=10, q=q, v=0.9 * v, m=q - 0.9 * v, v_unbiased=v)
        layers = base.layers.assign(**{f"filtered_{part}": value for part, value in whole(drawn).items()})
        survey = replace(base, tables=base.tables | {"tokens": tokens, "layers": layers})
        for variant, rows in found.items():
            rows.append(profile(survey, Choice(variant=variant)).iloc[0][list(true)].to_dict())
    error = {
        variant: {part: np.mean([row[part] for row in rows]) - value for part, value in true.items()}
        for variant, rows in found.items()
    }
    scatter = {part: np.std([row[part] for row in found["unbiased"]]) / np.sqrt(60) for part in true}
    assert all(abs(error["unbiased"][part]) < 4 * scatter[part] for part in true)
    assert abs(error["biased"]["v_between"]) > 6 * scatter["v_between"]


def test_the_unbiased_makeup_of_units_that_occur_once_is_refused() -> None:
    with pytest.raises(InputError, match=r"tiny some units occur once.*use --filter frequent"):
        profile(MADE.survey, Choice(variant="unbiased", filter="all"))


@pytest.mark.parametrize("variant", ["biased", "unbiased"])
def test_the_slope_is_minus_one_plus_what_q_owes_to_m(variant: str) -> None:
    choice = Choice(variant=variant)
    table = tradeoff(MADE.survey, choice)
    assert table["slope"].to_numpy() == pytest.approx(table["identity"].to_numpy(), rel=ROUNDING)
    for row in table.to_dict("records"):
        used = points(MADE.survey, row["layer"], choice).query("used")
        assert row["q_cv"] == pytest.approx(used["q"].std(ddof=0) / used["q"].mean())


def test_a_survey_without_units_has_rows_of_nothing() -> None:
    survey = emptied(MADE)
    for table in (profile(survey, Choice()), tradeoff(survey, Choice())):
        assert list(table["layer"]) == [0, 1, 2]
        assert table.select_dtypes("float").drop(columns="units", errors="ignore").isna().all().all()
    assert profile(survey, Choice(variant="unbiased"))["v_between"].isna().all()
