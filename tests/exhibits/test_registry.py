"""The list of exhibits, and the errors for unknown names and unsuitable surveys."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from tests.synthetic_surveys import make_survey

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.registry import all_exhibits, exhibit, find, make
from theodolite.studies.choice import Choice
from theodolite.studies.survey_data import SurveyData

SURVEY = make_survey("bert").survey
DRAWN = [2, 4, 5, 6, 7, 9, *range(10, 21), 22]


def get(number: str) -> Exhibit:
    return find(f"norm-variance/{number}")


def test_the_paper_is_listed_in_its_order() -> None:
    known = [found.id for found in all_exhibits().values() if found.paper == "norm-variance"]
    expected = [*(f"fig{number}" for number in DRAWN), "fits", "sums", "table1", "table3"]
    assert [name for name in known if name in expected] == expected
    assert all(found.title and found.needed for found in all_exhibits().values())


@pytest.mark.parametrize(("first", "same"), [("fig11", ("fig12", "fig13")), ("fig14", ("fig15", "fig16"))])
def test_figures_that_the_paper_repeats_for_other_models_are_one(first: str, same: tuple[str, ...]) -> None:
    assert all(get(name).make is get(first).make for name in same)


def test_an_unknown_exhibit_is_rejected_with_suggestions() -> None:
    with pytest.raises(InputError, match=r"no exhibit 'norm-variance/fig02'\. Did you mean 'norm-variance/fig2'"):
        find("norm-variance/fig02")
    with pytest.raises(InputError, match="`theodolite exhibits` lists all"):
        find("zzz")


def test_exhibit_names_are_unique() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        exhibit("norm-variance/fig2", title="again")(get("fig2").make)


@pytest.mark.parametrize(
    ("number", "choice", "words"),
    [
        ("table1", Choice(population="without-first"), "norm-variance/table1 does not use --population"),
        ("table3", Choice(specials="kept"), "table3 does not use --specials"),
        ("fig10", Choice(variant="unbiased"), "fig10 does not use --variant"),
        ("fig9", Choice(filter="all"), "fig9 does not use --filter"),
        ("fig4", Choice(layers=(1,)), "fig4 does not use --layer; omit it"),
        ("fig2", Choice(layers=(0, 1)), "fig2 draws one layer; give --layer once"),
        ("fig2", Choice(layers=(9,)), "--layer 9: the survey of bert has layers 0 to 2"),
        ("fig11", Choice(layers=(0, 9)), "--layer 9: the survey of bert has layers 0 to 2"),
        (
            "fig2",
            Choice(population="without-massive"),
            "--populations all,without-massive --out DIR`",
        ),
        (
            "fig22",
            Choice(),
            "to count by words, run `theodolite survey bert --corpus notes.txt --units word --out DIR`",
        ),
    ],
)
def test_what_cannot_be_drawn_is_rejected(number: str, choice: Choice, words: str) -> None:
    with pytest.raises(InputError) as error:
        make(get(number), [SURVEY], choice)
    assert words in str(error.value)


def test_one_survey_with_missing_data_is_enough_to_reject() -> None:
    vectors = SurveyData(SURVEY.facts | {"model": None, "units": "none"}, SURVEY.tables)
    with pytest.raises(
        InputError, match=r"have no units; to group them, run `theodolite measure notes\.txt --groups COLUMN"
    ):
        make(get("fig2"), [SURVEY, vectors])
    model = SURVEY.facts["model"]
    for modality, units in (("text", "id"), ("images", "label")):
        facts = SURVEY.facts | {"model": model | {"modality": modality}, "units": "none"}
        words = rf"`theodolite survey {model['name']} --corpus notes\.txt --units {units} --out DIR`"
        with pytest.raises(InputError, match=words):
            make(get("fig2"), [SurveyData(facts, SURVEY.tables)])
    with pytest.raises(
        InputError, match=r"measured without a model; survey one with `theodolite survey MODEL --corpus"
    ):
        make(get("table1"), [vectors])
    with pytest.raises(InputError, match=r"did not count the words.*`theodolite survey old --corpus"):
        make(get("fig9"), [make_survey("old", words=False).survey])
    with pytest.raises(InputError, match="needs at least one survey"):
        make(get("fig2"), [])


@pytest.mark.parametrize("number", ["fig5", "fig6", "fig18", "fig19", "fig20", "sums"])
def test_a_survey_from_before_sums_over_text_is_rejected(number: str) -> None:
    old = SURVEY.layers[[name for name in SURVEY.layers if "text_" not in name and not name.endswith("of_q_se")]]
    words = r"made by an older version.*`theodolite survey bert --corpus notes\.txt --units id --out DIR`"
    with pytest.raises(InputError, match=words):
        make(get(number), [SurveyData(SURVEY.facts, SURVEY.tables | {"layers": old})])
    vectors = SurveyData(SURVEY.facts | {"model": None, "units": "group"}, SURVEY.tables | {"layers": old})
    with pytest.raises(InputError, match=r"`theodolite measure notes\.txt --groups COLUMN --out DIR`"):
        make(get(number), [vectors])


def test_drawing_has_no_side_effects() -> None:
    from theodolite.exhibits.saving import compose

    before = dict(mpl.rcParams)
    compose(make(get("fig2"), [SURVEY]))
    assert dict(mpl.rcParams) == before


def test_a_paper_is_not_an_exhibit() -> None:
    with pytest.raises(InputError, match="'norm-variance' is a paper"):
        find("norm-variance")
