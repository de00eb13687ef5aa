"""The cautionary examples: closed forms, and all of their figures."""

import numpy as np
import pytest
from typer.testing import CliRunner

from theodolite.cli.app import app
from theodolite.errors import InputError
from theodolite.measures.laboratories.linking_number import linking_number
from theodolite.measures.spectrum import eigenvalues
from theodolite.studies.cautions import (
    SIDES,
    cautions,
    cube_tables,
    cubes,
    exact_spectra,
    hopf_link,
    hopf_tables,
    hopf_variances,
    rotation,
    sinusoid_tables,
)


@pytest.mark.parametrize("radius", [0.6, 0.9, 1.0])
def test_the_hopf_links_variances_are_in_closed_form(radius):
    link = hopf_link(50, radius)
    # Exact for evenly spaced points, so only rounding is left.
    assert eigenvalues(np.cov(link.T, bias=True)) == pytest.approx(hopf_variances(radius), abs=1e-12)


def test_the_hopf_link_is_linked():
    link = hopf_link(200)
    assert abs(linking_number(link[:200], link[200:])) == pytest.approx(1, abs=2e-3)
    assert linking_number(link[:200], link[200:] + np.array([5, 0, 0])) == pytest.approx(0, abs=1e-6)


def test_spectra_show_the_dimension_of_each_cube_but_not_of_all():
    table = cube_tables(points=1000)["cubes"]
    for name, sides in SIDES.items():
        of = table[table["cube"] == name]
        assert of["exact"].to_numpy() == pytest.approx(np.minimum(np.arange(1, 11) / sides, 1), abs=1e-12)
        # Eigenvalues of 1,000 points spread by some 2 sqrt(10/1000) = 20% about their common value.
        assert of["cumulative"].to_numpy() == pytest.approx(of["exact"].to_numpy(), abs=0.08)
        assert of["cumulative"].iloc[sides - 1] == pytest.approx(1, abs=1e-12)
        assert of["cumulative"].iloc[sides - 2] < 0.95
    together = table[table["cube"] == "all three"]
    assert together["cumulative"].to_numpy() == pytest.approx(together["exact"].to_numpy(), abs=0.02)
    assert together["cumulative"].iloc[0] > 0.8  # the shift is what varies


def test_the_exact_spectrum_is_that_of_very_many_points():
    clouds = np.concatenate(list(cubes(points=40_000).values()))
    assert eigenvalues(np.cov(clouds.T, bias=True)) == pytest.approx(
        exact_spectra()["all three"], rel=0.03, abs=5e-4
    )


def test_the_rotation_is_orthogonal_with_determinant_one():
    turn = rotation(3)
    assert turn @ turn.T == pytest.approx(np.eye(10), abs=1e-12)
    assert np.linalg.det(turn) == pytest.approx(1)


def test_sinusoids_follow_both_formulas():
    table = sinusoid_tables(16, 32)["sinusoid_cosines"]
    by_distance = table.assign(lag=table["other"] - table["position"]).groupby("lag")
    assert (by_distance["cosine"].max() - by_distance["cosine"].min()).max() < 1e-12
    assert (by_distance["cosine_2k"].max() - by_distance["cosine_2k"].min()).max() > 0.01


def test_a_negative_seed_is_rejected():
    with pytest.raises(InputError, match=r"--seed must be between 0 and 2\^32 - 1 \(got -1\)"):
        cautions(seed=-1)


@pytest.mark.slow
def test_the_verb_writes_a_folder_that_its_exhibits_draw(tmp_path, monkeypatch):
    few = hopf_tables(0, 12)
    monkeypatch.setattr("theodolite.studies.cautions.hopf_tables", lambda seed: few)
    out = tmp_path / "cautions"
    run = CliRunner().invoke(app, ["cautions", "--out", str(out), "--quiet"])
    assert run.exit_code == 0, run.output
    assert "t-SNE" in run.stdout
    for figure in ("fig1", "fig2", "fig3", "fig6"):
        file = tmp_path / f"{figure}.svg"
        run = CliRunner().invoke(app, ["exhibit", f"bert-spaces/{figure}", str(out), "--out", str(file)])
        assert run.exit_code == 0, run.output
        assert file.stat().st_size > 1000
    run = CliRunner().invoke(app, ["cautions", "--out", str(out)])
    assert isinstance(run.exception, InputError)
    assert "--overwrite" in str(run.exception)
