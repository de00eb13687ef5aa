"""fig24 to fig26, table6 and table7: drawn from folders made of planted vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection

from theodolite.errors import InputError
from theodolite.exhibits.registry import find, make
from theodolite.exhibits.saving import compose, save, to_markdown
from theodolite.studies.choice import Choice
from theodolite.studies.clouds.clouds import measure_clouds as clouds_measured
from theodolite.studies.contrast.contrast import measure_contrast
from theodolite.studies.contrast.pairs import pairs_table
from theodolite.studies.laboratory import Findings, make_facts
from theodolite.studies.reading import read_survey_data
from theodolite.studies.survey_data import SurveyData
from theodolite.text import format_scientific

DIM = 12
MODEL = {"name": "tiny $1", "parameters": 10}
LAYERS = [{"index": 0, "name": "embeddings", "dim": DIM}, {"index": 1, "name": "block 1", "dim": DIM}]


def contrast(folder: Path, sizes: dict[str, int]) -> SurveyData:
    rng = np.random.default_rng(0)
    pairs = {name: [(f"{name} ${i}.", f"not {name} ${i}") for i in range(n)] for name, n in sizes.items()}
    count = sum(sizes.values())
    second = rng.normal(size=(2 * count, DIM))
    second[1::2] += 2
    vectors = {0: np.repeat(rng.normal(size=(count, DIM)), 2, axis=0), 1: second}  # at layer 0 nothing differs
    random = {layer: {name: rng.normal(size=(6, n, DIM)) for name, n in sizes.items()} for layer in vectors}
    tables, _ = measure_contrast(vectors, pairs, {0: "embeddings", 1: "block 1"}, random=random)
    facts = make_facts("contrast", MODEL, pooling="first") | {"layers": LAYERS}
    facts["corpus"] = {"name": "pairs.json", "documents": count}
    Findings(facts, {"pairs": pairs_table(pairs, [3] * 2 * count), **tables}).save(folder)
    return read_survey_data(folder)


def clouds(folder: Path, *, methods: tuple[str, ...] = ("pca",), empty: bool = False) -> SurveyData:
    rng = np.random.default_rng(1)
    names = {"tweets": 30, "pages": 50}
    of = {name: rng.normal(at, 1, (size, DIM)) for at, (name, size) in enumerate(names.items())}
    cut = {name: x[: 0 if empty else 20] for name, x in of.items()}
    states = {"as-is": {0: of, 1: of}, "matched": {0: cut, 1: cut}}
    tokens = {lengths: {name: [9] * len(x) for name, x in held[0].items()} for lengths, held in states.items()}
    tables = clouds_measured(states, tokens, {0: "embeddings", 1: "block 1"}, methods=methods, permutations=19)
    settings = {"pooling": "mean", "max_tokens": 64, "matched_tokens": None if empty else 9}
    facts = make_facts("clouds", MODEL, **settings) | {"layers": LAYERS}
    facts["corpus"] = {"name": "tweets, pages", "documents": 60}
    Findings(facts, tables).save(folder)
    return read_survey_data(folder)


def test_fig24_has_one_mark_per_pair_and_one_arrow_per_class(tmp_path: Path) -> None:
    survey = contrast(tmp_path / "c", {"a$b": 5, "c": 4})
    plate = make(find("bert-spaces/fig24"), [survey])
    figure = compose(plate)
    axes = [ax for sub in figure.subfigs for ax in sub.axes]
    assert len(axes) == 2
    marks = sum(len(c.get_offsets()) for c in axes[0].collections if isinstance(c, PathCollection))
    assert marks == 9
    assert len(axes[0].texts) == 2  # arrows
    assert set(plate.data["layer"]) == {1}
    mean = plate.data[(plate.data["class"] == "c") & (plate.data["pair"] == 0)]["d1"].iloc[0]
    each = plate.data[(plate.data["class"] == "c") & (plate.data["pair"] > 0)]["d1"]
    assert mean == pytest.approx(each.mean())
    save(find("bert-spaces/fig24"), plate, tmp_path / "fig24.png")


def test_fig24_states_the_share_of_a_class_that_is_drawn(tmp_path: Path) -> None:
    survey = contrast(tmp_path / "c", {"a": 5, "b": 4})
    plate = make(find("bert-spaces/fig24"), [survey])
    figure = compose(plate)
    (legend,) = (legend for part in figure.subfigs for legend in part.legends)
    lengths = survey.tables["classes"].query("layer == 1").set_index("class")["length_of_mean"]
    means = plate.data.query("pair == 0").set_index("class")[["d1", "d2", "d3", "d4"]]
    shares = np.square(means).sum(axis=1) / np.square(lengths)
    assert [text.get_text() for text in legend.get_texts()] == [f"{name} ({shares[name]:.0%})" for name in "ab"]
    marks = figure.subfigs[0].axes[0].collections[0]
    assert len(marks.get_facecolor()) == 0  # open, so that marks at one place are all seen


def test_a_layer_without_differences_is_drawn(tmp_path: Path) -> None:
    survey = contrast(tmp_path / "c", {"a": 5, "b": 4})
    for name in ("fig24", "table7"):
        plate = make(find(f"bert-spaces/{name}"), [survey], Choice(layers=(0,)))
        compose(plate)
    assert "undefined" in to_markdown(plate)


def test_cosines_by_layer_are_drawn_with_one_folder_or_two_or_one_class(tmp_path: Path) -> None:
    one, two = contrast(tmp_path / "c", {"a": 9, "b": 9, "c": 9}), contrast(tmp_path / "d", {"a": 5, "b": 4})
    for surveys, panels in (([one], 3), ([one, two], 3), ([contrast(tmp_path / "e", {"a": 3})], 0)):
        figure = compose(make(find("bert-spaces/fig24-layers"), surveys))
        assert sum(len(sub.axes) for sub in figure.subfigs) == panels


def test_the_tables_report_the_findings(tmp_path: Path) -> None:
    survey = contrast(tmp_path / "c", {"a": 12, "b": 12})
    used = make(find("bert-spaces/table6"), [survey])
    assert used.shown is not None
    assert used.shown["Pairs"].tolist() == ["12", "12"]
    assert used.shown["Punctuation"].tolist() == ["12", "12"]  # $ is no punctuation, the full stop is
    assert len(used.data) == 24
    cosines = make(find("bert-spaces/table7"), [survey])
    assert cosines.shown is not None
    row = survey.tables["cosines"].set_index("layer").loc[1]
    assert cosines.shown["Cosine"].tolist() == [f"{row['cosine']:.3f}"]
    assert cosines.shown["Verdict"].tolist() == [row["verdict"]]
    for column, name in (("reference_p", "p random"), ("reference_p_holm", "adjusted ")):
        assert cosines.shown[name].tolist() == [format_scientific(row[column], 2)] != ["–"]
    assert cosines.shown["SEAT"].item().startswith(f"{row['seat']:.3f}".replace("-", "−"))
    for name, plate in (("table6", used), ("table7", cosines)):
        save(find(f"bert-spaces/{name}"), plate, tmp_path / f"{name}.png")
    make(find("bert-spaces/table7"), [contrast(tmp_path / "one", {"a": 3})])  # no rows, no crash


def test_a_folder_without_the_test_against_random_words_is_rejected(tmp_path: Path) -> None:
    survey = contrast(tmp_path / "c", {"a": 3, "b": 3})
    older = survey.tables | {"cosines": survey.tables["cosines"].drop(columns="reference_p_holm")}
    with pytest.raises(InputError, match="older version; run `theodolite contrast` again"):
        make(find("bert-spaces/table7"), [SurveyData(survey.facts, older, survey.folder)])


def test_clouds_are_drawn_as_they_are_and_matched(tmp_path: Path) -> None:
    survey = clouds(tmp_path / "k")
    plate = make(find("bert-spaces/fig25"), [survey])
    axes = [ax for sub in compose(plate).subfigs for ax in sub.axes]
    assert [sum(len(c.get_offsets()) for c in ax.collections) for ax in axes] == [80, 40]  # type: ignore[arg-type]
    assert "a linear classifier assigns" in plate.caption
    assert "original length (30 and 50 documents, of which 30 of each are compared," in plate.caption
    assert "matched length (20 and 20 documents, 9 and 9 tokens" in plate.caption
    shares = survey.tables["axes"].query("layer == 1 and lengths == 'as-is'")["share"].tolist()
    assert axes[0].get_xlabel() == f"component 1 ({shares[0]:.0%})"
    assert f"component 2 ({shares[1]:.0%})" in axes[0].get_ylabel()
    spread = make(find("bert-spaces/fig26"), [survey], Choice(layers=(0,)))
    axes = [ax for sub in compose(spread).subfigs for ax in sub.axes]
    assert len(axes) == 8
    assert [ax.get_xlabel() for ax in axes[:4]][2] == "dot product of pairs"
    assert all(label.get_text().endswith("%") for ax in axes for label in ax.get_yticklabels())
    assert axes[0].get_xlim() == axes[4].get_xlim()
    assert spread.data.groupby(["lengths", "metric", "corpus_a", "corpus_b"])["share"].sum().round(9).eq(1).all()
    for name, made in (("fig25", plate), ("fig26", spread)):
        save(find(f"bert-spaces/{name}"), made, tmp_path / f"{name}.svg")


def test_clouds_that_could_not_be_matched_are_drawn_without(tmp_path: Path) -> None:
    survey = clouds(tmp_path / "k", empty=True)
    plate = make(find("bert-spaces/fig25"), [survey, clouds(tmp_path / "other")])
    assert "not measured (fewer than 10 documents of a corpus)" in plate.caption
    compose(plate)
    compose(make(find("bert-spaces/fig26"), [survey]))


def test_other_folders_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="make one with `theodolite clouds MODEL A B --out DIR`"):
        make(find("bert-spaces/fig25"), [contrast(tmp_path / "c", {"a": 3})])
    with pytest.raises(InputError, match=r"make one with `theodolite contrast MODEL PAIRS\.json --out DIR`"):
        make(find("bert-spaces/fig24"), [clouds(tmp_path / "k")])
    with pytest.raises(InputError, match="--projections none"):
        make(find("bert-spaces/fig25"), [clouds(tmp_path / "n", methods=())])
