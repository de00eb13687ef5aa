"""The population `without-sinks` of whole surveys: a decoder with a planted sink, merging, and second passes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.shared import slow
from tests.small_models import POSITIONS, load, save, sentences

from theodolite.errors import InputError
from theodolite.exhibits.registry import find, make
from theodolite.integrations.measure import measure_layers
from theodolite.integrations.share import Share
from theodolite.sources.text.source import TextSource
from theodolite.statistics.cells import POPULATIONS
from theodolite.studies.choice import AUTO, Choice, default_population
from theodolite.studies.norm_variance.token_sets import make_token_sets
from theodolite.studies.reading import read_survey_data
from theodolite.surveys.api import survey as whole_survey
from theodolite.surveys.merge import SINKS_NOT_SEPARATED, merge
from theodolite.text import POPULATION_LABELS

DOCUMENTS = sentences(45, seed=4)
survey = partial(whole_survey, sample_size=64)  # neighbours of more take longer than all the rest
OLD = ("all", "without-first", "without-massive")


@pytest.fixture
def decoder(small_model: Any, tmp_path: Path) -> Path:
    """A model whose first position is massive up to the last block, but not after the final norm."""
    model, tokenizer = load(small_model("gpt2"))
    with torch.no_grad():
        model.wpe.weight[0] *= 1500
    save(model, tokenizer, tmp_path / "model")
    return tmp_path / "model"


def counts(found: Any, population: str) -> list[int]:
    rows = found.layers[found.layers["population"] == population].sort_values("layer")
    return [int(n) for n in rows["n"]]


@pytest.mark.parametrize(
    ("dtype", "batch_tokens"),  # a few windows in a batch, or many with padding
    [("float32", 80), ("bfloat16", 4000), slow("float32", 4000), slow("bfloat16", 80)],
)
def test_the_same_positions_are_left_out_at_every_layer(decoder: Path, dtype: str, batch_tokens: int) -> None:
    found = survey(decoder, DOCUMENTS, dtype=dtype, batch_tokens=batch_tokens)
    n, massive, sinks = (counts(found, name) for name in ("all", "without-massive", "without-sinks"))
    assert massive[-1] == n[-1] > massive[1]  # after the final norm no position is massive
    assert sinks == [massive[1]] * len(n)
    assert counts(found, "without-first") == sinks  # only first positions are
    sample = found.state.folds[len(n) - 1].sample
    assert len(sample.cells[5]) == n[-1] - sinks[-1]
    tokens = found.tokens.query("population == 'without-sinks'").groupby("layer")["n"].sum()
    assert tokens.tolist() == sinks


def test_a_survey_of_one_layer_knows_only_its_own_massive_positions(decoder: Path) -> None:
    last = survey(decoder, DOCUMENTS, layers="-1")
    assert counts(last, "without-sinks") == counts(last, "all")


class TestMerge:
    def test_parts_equal_the_complete_survey(self, decoder: Path, tmp_path: Path) -> None:
        whole = survey(decoder, DOCUMENTS, out=tmp_path / "whole")
        halves = [survey(decoder, part, pilot=tmp_path / "whole") for part in (DOCUMENTS[:25], DOCUMENTS[25:])]
        merged = merge(halves, out=tmp_path / "merged")
        assert counts(merged, "without-sinks") == counts(whole, "without-sinks")
        for column in ("q", "v_within", "mean_cosine", "effective_rank"):
            mine, theirs = (
                one.layers.query("population == 'without-sinks'")[column].tolist() for one in (merged, whole)
            )
            assert mine == pytest.approx(theirs, rel=1e-5)

    @pytest.mark.parametrize("older", [0, slow(1)])
    def test_a_survey_without_the_population_leaves_it_undefined(
        self, decoder: Path, tmp_path: Path, older: int
    ) -> None:
        new = survey(decoder, DOCUMENTS[:30], out=tmp_path / "new")
        old = survey(decoder, DOCUMENTS[30:], populations=OLD, pilot=tmp_path / "new", out=tmp_path / "old")
        merged = merge([old, new] if older == 0 else [new, old], out=tmp_path / "merged")
        lost = merged.layers.query("population == 'without-sinks'")
        assert len(lost) == len(merged.state.folds)
        assert lost["n"].isna().all()
        assert json.loads(lost["undefined"].iloc[0])["q"] == SINKS_NOT_SEPARATED
        massive = [a + b for a, b in zip(*(counts(one, "without-massive") for one in (old, new)), strict=True)]
        assert counts(merged, "without-massive") == massive
        read = read_survey_data(tmp_path / "merged", ("layers",))
        assert read.facts["populations"] == list(POPULATIONS)
        assert default_population([read.facts]) == "all"

    def test_other_populations_must_still_agree(self, decoder: Path) -> None:
        one = survey(decoder, DOCUMENTS[:30])
        two = survey(decoder, DOCUMENTS[30:], populations=("all", "without-sinks"))
        with pytest.raises(InputError, match=r"--populations"):
            merge([one, two])


@pytest.mark.slow
def test_the_default_view_of_a_decoder_is_without_sinks(decoder: Path, small_model: Any, tmp_path: Path) -> None:
    survey(decoder, DOCUMENTS, out=tmp_path / "decoder", units="id")
    survey(small_model("bert"), DOCUMENTS, out=tmp_path / "encoder", units="id")
    survey(decoder, DOCUMENTS, out=tmp_path / "old", populations=OLD)
    tables = ("layers", "tokens", "units")
    one, encoder, old = (read_survey_data(tmp_path / name, tables) for name in ("decoder", "encoder", "old"))
    total, kept = counts(one, "all")[0], counts(one, "without-sinks")[0]
    for number in ("fig2", "fig4", "fig5", "fig10", "fig11", "table3"):
        exhibit = find(f"norm-variance/{number}")
        plates = {name: make(exhibit, [read]) for name, read in (("sinks", one), ("all", encoder))}
        assert "all positions except sinks" in plates["sinks"].caption, number
        assert f"Left out: {total - kept} of {total:,} positions of " in plates["sinks"].caption, number
        assert " at every layer." in plates["sinks"].caption, number
        assert "Population: all positions." in plates["all"].caption, number
        assert "Population: all positions." in make(exhibit, [old]).caption, number
        assert "Population: all positions." in make(exhibit, [one], Choice("all")).caption, number
    mixed = make(find("norm-variance/fig4"), [one, encoder]).caption
    assert "none of" in mixed.partition("Left out:")[2]


def test_token_sets_of_a_decoder_leave_sinks_out(decoder: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("\n".join(DOCUMENTS), "utf-8")
    survey(decoder, tmp_path / "corpus.txt", out=tmp_path / "s")
    made = make_token_sets(tmp_path / "s", layer=4)
    read = read_survey_data(tmp_path / "s", ("layers", "tokens"))
    assert made.population == "without-sinks"
    tokens = read.tokens.query("population == 'without-sinks' and layer == 4").set_index("unit")["n"]
    assert made.chosen["n"].tolist() == [tokens[unit] for unit in made.chosen["unit"]]


def test_a_probe_measures_the_population(decoder: Path) -> None:
    model, tokenizer = load(decoder)
    source = TextSource(model.eval(), tokenizer, max_tokens=POSITIONS)
    batches = list(source.prepare(list(enumerate(DOCUMENTS))))
    share = Share(batches, [], sum(batch.positions for batch in batches))
    rows, *_ = measure_layers(source, share, ("all", "without-sinks"))
    sinks = rows[rows["population"] == "without-sinks"]["n"].tolist()
    assert len(set(sinks)) == 1
    assert sinks[0] < rows["n"].max()


def test_every_population_has_a_label_and_auto_is_none_of_them() -> None:
    assert list(POPULATION_LABELS) == list(POPULATIONS)
    assert AUTO not in POPULATIONS
