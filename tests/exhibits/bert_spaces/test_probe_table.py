"""table1 of bert-spaces from tables made by hand: what is shown, what is bold, and the caption."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from theodolite.errors import InputError
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose, to_json, to_markdown
from theodolite.studies.laboratory import make_facts
from theodolite.studies.survey_data import SurveyData

PROBES = ("no hidden layer", "one hidden layer", "boosted trees")
WORDS = {"bear": [0.1, 0.3, 0.6], "cost$_|": [0.7, 0.2, 0.1], "two words": None}


def probed(name: str = "bert", classes: tuple[str, ...] = ("adjective", "noun", "verb")) -> SurveyData:
    facts = make_facts("probe", {"name": name}, words={"name": "list.csv"})
    facts["counts"] = {"words_a_class": 40, "classes": 3, "left_out": {"several tokens": 5}}
    head = [{"layer": pd.NA, "layer_name": "input table", "probe": probe} for probe in PROBES]
    score = {"accuracy": 0.84, "accuracy_low": 0.8, "accuracy_high": 0.88, "control": 0.35, "baseline": 1 / 3}
    rows = [
        each
        | {
            "word": word,
            "classes": "noun, verb",
            "label": label,
            "confidence": np.nan if values is None else values[number],
            "confidence_sd": np.nan if values is None else 0.05,
            "undefined": "several tokens" if values is None else "",
        }
        for each in head
        for word, values in WORDS.items()
        for number, label in enumerate(classes)
    ]
    tables = {"probes": pd.DataFrame([each | score for each in head]), "confidence": pd.DataFrame(rows)}
    return SurveyData(facts, {name: table.astype({"layer": "Int64"}) for name, table in tables.items()})


def plate(*surveys: SurveyData) -> Plate:
    return make(find("bert-spaces/table1"), surveys)


def test_one_row_per_probe_and_word_with_the_likeliest_class_bold() -> None:
    made = plate(probed())
    assert made.shown is not None
    first = ["bert", "input table", "no hidden layer", "bear", "verb", "0.10", "0.30", "0.60"]
    assert made.shown.iloc[0].tolist() == first
    assert len(made.shown) == 9
    assert made.shown.iloc[2].tolist()[3:] == ["two words", "–", "–", "–", "–"]
    texts = compose(made).axes[0].texts
    bold = [text.get_text() for text in texts if text.get_fontweight() == "bold"]
    assert sorted(bold) == sorted([*made.shown.columns, *["0.60", "0.70"] * 3])


def test_the_caption_reports_scores_control_and_chance() -> None:
    caption = plate(probed()).caption
    assert "40 words in each of 3 classes of list.csv (omitted: several tokens: 5), guessing 0.33" in caption
    assert "no hidden layer 0.84 [0.80, 0.88], control 0.35" in caption
    assert "–: two words (several tokens)." in caption


def test_models_with_other_classes_are_side_by_side() -> None:
    made = plate(probed(), probed("gpt2", ("noun", "verb", "adverb")))
    assert made.shown is not None
    assert made.shown.columns[5:].tolist() == ["adjective", "noun", "verb", "adverb"]
    assert made.shown.iloc[9].tolist()[5:] == ["–", "0.10", "0.30", "0.60"]
    assert len(made.data) == 2 * 27
    assert "cost<span>$</span>\\_\\|" in to_markdown(made)
    assert "null" in to_json(find("bert-spaces/table1"), made)


def test_without_displayed_words_or_with_other_folders_the_error_names_the_command() -> None:
    bare = probed()
    with pytest.raises(InputError, match="has no displayed word"):
        plate(SurveyData(bare.facts, {"probes": bare.tables["probes"]}))
    with pytest.raises(InputError, match=r"theodolite probe MODEL --words FILE\.csv --out DIR"):
        plate(SurveyData(bare.facts | {"laboratory": "weights"}, bare.tables))
