"""What-if against transforming the vectors and surveying them afresh."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import skew
from tests import oracles
from tests.measures.test_hubness import occurrences
from tests.measures.test_transforms import afresh
from typer.testing import CliRunner

from theodolite import measure
from theodolite.cli.app import app
from theodolite.errors import InputError
from theodolite.measures.intrinsic_dimension import twonn
from theodolite.studies.what_if import COLUMNS, NOTHING_LEFT, what_if

SPECTRAL = 1e-5
"""Relative: the scatter is a float32 product within a batch."""
SAMPLE = 1e-4
"""Relative: the sample is float32, and whitening multiplies its rounding about the offset by 3000/0.3."""
TRANSFORMS = ["as-is", "centred", "standardised", "without-top-1", "without-top-3", "whitened"]


def vectors(n: int = 700, dim: int = 8) -> np.ndarray:
    random = np.random.default_rng(0)
    x = random.normal(size=(n, dim)) @ (np.eye(dim) + 0.3 * random.normal(size=(dim, dim)))
    x[:, 2] += 300
    x[:, 3] *= 8
    return x.astype(np.float32).astype(np.float64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("what-if") / "out"
    measure(vectors(), out=path)  # 700 of a sample of 4,096: the sample is everything
    return path


@pytest.fixture(scope="module")
def table(folder: Path) -> pd.DataFrame:
    return what_if(folder, remove=(1, 3)).set_index("transform")


@pytest.mark.parametrize("name", TRANSFORMS)
def test_numbers_equal_those_of_transformed_vectors(table: pd.DataFrame, name: str) -> None:
    x, row = afresh(vectors(), name), table.loc[name]
    for column, truth in oracles.spectral(x).items():
        assert row[column] == pytest.approx(truth, rel=SPECTRAL), column
    assert row["mean_cosine"] == pytest.approx(oracles.mean_cosine(x), abs=1e-6)
    estimate = twonn(torch.from_numpy(x))
    assert row["twonn"] == pytest.approx(estimate.keep90, rel=SAMPLE)
    assert row["twonn_ml"] == pytest.approx(estimate.ml, rel=SAMPLE)
    assert row["hubness_skew"] == pytest.approx(skew(occurrences(x, 10)), rel=1e-3)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    assert row["hubness_skew_cosine"] == pytest.approx(skew(occurrences(unit, 10)), rel=1e-3)
    assert (row["twonn_n"], row["mean_cosine_n"]) == (700, 700)
    norm = np.linalg.norm
    assert row["stable_rank"] == pytest.approx(norm(x) ** 2 / norm(x, 2) ** 2, rel=SPECTRAL)
    assert row["removed"] == (int(name[-1]) if name.startswith("without") else 0)
    assert row["undefined"] is None


def test_as_is_is_the_survey_itself(table: pd.DataFrame, folder: Path) -> None:
    layer = pd.read_parquet(folder / "layers.parquet").iloc[0]
    same = set(COLUMNS) & set(layer.index) - {"undefined", "layer", "layer_name", "population"}
    for column in same:
        assert table.loc["as-is"][column] == pytest.approx(layer[column], rel=1e-12), column


def test_centring_removes_the_cosine_and_keeps_the_dimension(table: pd.DataFrame) -> None:
    assert table["mean_cosine"]["as-is"] > 0.99
    assert abs(table["mean_cosine"]["centred"]) < 5 * table["mean_cosine_se"]["centred"] + 2 / 700
    assert table["twonn"]["centred"] == pytest.approx(table["twonn"]["as-is"], rel=1e-9)
    assert table["iso_score"]["whitened"] == pytest.approx(1)


def test_whitening_hurts_euclidean_search_and_helps_search_by_cosine() -> None:
    """Lengths that differ make hubs by Euclidean distance; the advice for cosine is the opposite."""
    random = np.random.default_rng(0)
    x = random.normal(size=(1500, 24)) * np.linspace(3, 0.3, 24)
    x *= np.exp(0.4 * random.normal(size=(1500, 1)))
    x[:, 0] += 4 * np.linalg.norm(x, axis=1)  # a common direction
    found = what_if(measure(x), remove=[1]).set_index("transform")
    euclidean, cosine = found["hubness_skew"], found["hubness_skew_cosine"]
    assert euclidean["whitened"] > euclidean["as-is"] + 3 * found["hubness_skew_se"]["whitened"]
    assert cosine["whitened"] < cosine["as-is"] - 3 * found["hubness_skew_cosine_se"]["as-is"]


def test_a_sample_smaller_than_the_survey_is_reported(tmp_path: Path) -> None:
    found = what_if(measure(vectors(), sample_size=200), remove=[1]).set_index("transform")
    assert found["mean_cosine_n"].tolist() == [700, 200, 200, 200, 200]
    assert (found["twonn_n"] == 200).all()
    x = afresh(vectors(), "standardised")
    row = found.loc["standardised"]
    assert row["mean_cosine"] == pytest.approx(oracles.mean_cosine(x), abs=4 * row["mean_cosine_se"])


def test_transforms_that_remove_everything_are_null_with_a_reason() -> None:
    flat = np.random.default_rng(0).normal(size=(100, 2)) @ np.ones((2, 5)) + 1
    row = what_if(measure(flat), remove=[2]).set_index("transform").loc["without-top-2"]
    assert row["kept"] == 0
    assert pd.isna(row["twonn"])
    assert json.loads(row["undefined"])["twonn"] == NOTHING_LEFT
    one = what_if(measure(np.ones((1, 3))), remove=[1])
    assert set(json.loads(one["undefined"][0]).values()) == {"fewer than two vectors"}
    no_sample = what_if(measure(vectors(), sample_size=0), remove=[1])
    assert json.loads(no_sample["undefined"][1])["mean_cosine"] == "the sample is empty"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"population": "without-first"}, "--population 'without-first': this survey has all, without-massive"),
        ({"layers": "1"}, "--layers 1: this survey has layer 0"),
        ({"layers": "one"}, "--layers requires numbers and ranges"),
        ({"remove": ["a"]}, "--remove: expected an integer of at least 1, got 'a'"),
        ({"remove": 8}, "--remove requires a number of directions from 1 to 7 for 8 coordinates"),
    ],
)
def test_bad_input(folder: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        what_if(folder, **options)


class TestCommand:
    def run(self, *arguments: str) -> Any:
        return CliRunner().invoke(app, ["what-if", *arguments])

    def test_the_table(self, folder: Path) -> None:
        printed = self.run(str(folder), "--remove", "2", "--layers", "-1").stdout
        assert "without-top-2" in printed
        assert "without-top-1" not in printed
        assert "hubs (skewness of the 10-occurrence)" in printed

    def test_json(self, folder: Path, table: pd.DataFrame) -> None:
        rows = json.loads(self.run(str(folder), "--remove", "1", "--remove", "3", "--json").stdout)
        assert [row["transform"] for row in rows] == TRANSFORMS
        assert rows[1]["twonn"] == table["twonn"]["centred"]
        assert rows[1]["undefined"] == {}

    @pytest.mark.parametrize("ending", ["csv", "md", "json", "parquet"])
    def test_files(self, folder: Path, tmp_path: Path, ending: str) -> None:
        out = tmp_path / "made" / f"table.{ending}"
        assert self.run(str(folder), "--remove", "1", "--out", str(out)).exit_code == 0
        if ending in ("csv", "parquet"):
            found = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
            assert found.columns.tolist() == COLUMNS
            assert len(found) == 5
        else:
            assert "without-top-1" in out.read_text()

    def test_another_extension_is_rejected_before_anything_is_read(self, tmp_path: Path) -> None:
        result = self.run(str(tmp_path), "--out", "table.xlsx")
        assert isinstance(result.exception, InputError)
        assert str(result.exception) == "--out table.xlsx must end in one of .csv, .md, .json, .parquet."


def test_a_dimension_above_the_number_of_directions_is_undefined() -> None:
    few = np.random.default_rng(0).normal(size=(33, 32)).astype(np.float32)
    table = what_if(measure(few)).set_index("transform")
    rounded = torch.from_numpy(afresh(few, "whitened").astype(np.float32))
    assert twonn(rounded).keep90 > 1000  # what one would have printed: all are equally far apart but for rounding
    for column in ("twonn", "twonn_se", "twonn_ml", "twonn_ml_se"):
        assert pd.isna(table.loc["whitened", column])
        assert (
            "exceeds the 32 directions: 33 vectors are too few"
            in json.loads(table.loc["whitened", "undefined"])[column]
        )
    assert table.loc["as-is", "twonn"] > 0
    # The dimension of a plane may be estimated as 2.1: that is no reason to hide it.
    plane = what_if(measure(np.random.default_rng(1).uniform(size=(300, 2))), remove=(1,)).set_index("transform")
    assert plane.loc["whitened", "twonn"] == pytest.approx(2, abs=0.3)
