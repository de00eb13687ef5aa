"""The data that a study reads from a survey: names, layers, and the command that makes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.synthetic_surveys import make_survey

from theodolite.errors import InputError
from theodolite.studies.choice import Choice, check_population
from theodolite.studies.survey_data import SurveyData, check_layer, make_labels, middle_layer, sample_layers


def test_labels_are_model_names_extended_only_if_models_repeat() -> None:
    one, two = make_survey("a").survey, make_survey("b").survey
    assert make_labels([one, two]) == ["a", "b"]
    assert make_labels([one, one]) == ["a on notes.txt, id (1)", "a on notes.txt, id (2)"]
    rare = replace(one, facts=one.facts | {"settings": {"min_count": 30}})
    assert make_labels([one, rare]) == ["a on notes.txt, id, min-count 1", "a on notes.txt, id, min-count 30"]
    assert make_labels([]) == []


@pytest.mark.parametrize(("layers", "middle"), [(13, 6), (25, 12), (7, 3), (1, 0), (2, 0)])
def test_the_middle_is_half_of_the_blocks(layers: int, middle: int) -> None:
    assert middle_layer(make_survey(layers=layers, units=4).survey) == middle


def test_the_middle_is_the_nearest_layer_that_was_surveyed() -> None:
    survey = make_survey(layers=13, units=4).survey
    kept = [layer for layer in survey.facts["layers"] if layer["index"] in (0, 7, 12)]
    assert middle_layer(SurveyData(survey.facts | {"layers": kept})) == 7
    with pytest.raises(InputError, match="has no layers"):
        middle_layer(SurveyData(survey.facts | {"layers": []}))


def test_a_grid_goes_from_input_to_output() -> None:
    assert sample_layers(make_survey(layers=13, units=4).survey) == [0, 3, 6, 9, 12]
    assert sample_layers(make_survey(layers=25, units=4).survey) == [0, 6, 12, 18, 24]
    assert sample_layers(make_survey(layers=2, units=4).survey) == [0, 1]


def test_a_missing_layer_is_rejected_with_the_available_ones() -> None:
    survey = make_survey("bert", layers=3, units=4).survey
    assert check_layer(survey, 2) == 2
    with pytest.raises(InputError, match="--layer 7: the survey of bert has layers 0 to 2"):
        check_layer(survey, 7)
    kept = [layer for layer in survey.facts["layers"] if layer["index"] != 1]
    with pytest.raises(InputError, match="has layers 0, 2"):
        check_layer(SurveyData(survey.facts | {"layers": kept}), 1)


def test_the_command_names_what_was_surveyed() -> None:
    survey = make_survey("bert", units=4).survey
    assert survey.command("--units", "word") == "theodolite survey bert --corpus notes.txt --units word --out DIR"
    vectors = SurveyData(survey.facts | {"model": None})
    assert vectors.model == "notes.txt"
    assert vectors.command("--groups", "COLUMN") == "theodolite measure notes.txt --groups COLUMN --out DIR"


def test_commands_keep_the_path_and_the_options_of_the_user() -> None:
    """A shortened path is another model, and without its limit the survey would read another corpus."""
    filters = {"field": "text", "column": "body", "min_words": 3, "limit": 600, "seed": 0, "sample": None}
    facts = {
        "model": {"name": "/data/runs/decoder/step 400"},
        "corpus": {"name": "/data/texts/books.jsonl", "filters": filters, "part": "0/4"},
        "settings": {"units": "word", "max_tokens": 64, "wrap": False, "contextuality": True},
    }
    kept = "--column body --min-words 3 --limit 600"
    assert SurveyData(facts).command("--units", "id") == (
        f"theodolite survey '/data/runs/decoder/step 400' --corpus /data/texts/books.jsonl {kept} --max-tokens 64 "
        "--contextuality --part 0/4 --units id --out DIR"
    )
    assert "--units word" in SurveyData(facts).command()
    measured = {"model": None, "corpus": {"name": "../vectors.npz"}, "settings": {"units": "none"}}
    measured |= {"identity": {"corpus": {"column": "second"}}}
    assert SurveyData(measured).command("--groups", "COLUMN") == (
        "theodolite measure ../vectors.npz --column second --groups COLUMN --out DIR"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"variant": "unbias"}, "--variant 'unbias' is not one of biased, unbiased. Did you mean"),
        ({"filter": "rare"}, "--filter 'rare' is not one of frequent, all"),
        ({"specials": "out"}, "--specials 'out' is not one of auto, kept, left-out"),
    ],
)
def test_an_unknown_choice_is_rejected(options: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Choice(**options)  # type: ignore[arg-type]


def test_a_population_that_was_not_surveyed_is_rejected_with_the_command() -> None:
    survey = make_survey("bert", units=4).survey
    check_population(survey, "without-first")
    with pytest.raises(
        InputError, match=r"has all, without-first\. To compute it: .* --populations all,without-massive"
    ):
        check_population(survey, "without-massive")
    with pytest.raises(InputError, match=r"has all, without-first\. Did you mean 'without-first'"):
        check_population(survey, "without-frist")


def test_special_units_are_excluded_below_100_000_documents() -> None:
    few, many = make_survey(documents=99_999, units=4).survey, make_survey(documents=100_000, units=4).survey
    assert [Choice().includes_specials(survey) for survey in (few, many)] == [False, True]
    assert [Choice(specials="kept").includes_specials(survey) for survey in (few, many)] == [True, True]
    assert [Choice(specials="left-out").includes_specials(survey) for survey in (few, many)] == [False, False]
