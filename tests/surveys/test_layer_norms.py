"""The norms that a survey keeps: the file, the table, the entry in survey.json, merged and resumed."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.small_models import FACTS, load, save, sentences

from theodolite.engines.progress import Listener
from theodolite.errors import InputError
from theodolite.models.norm_placement import Placement
from theodolite.models.norms import Norm
from theodolite.sources import worker_processes
from theodolite.sources.worker_processes import WorkerCount
from theodolite.storage.file_names import LAYER_NORMS
from theodolite.studies.norm_variance.layer_norm import predict_q
from theodolite.studies.reading import read_survey_data
from theodolite.surveys.api import survey as whole_survey
from theodolite.surveys.folder import open_survey, open_tables
from theodolite.surveys.layer_norms import COLUMNS, load_norms
from theodolite.surveys.merge import merge
from theodolite.surveys.text_survey import _find_beside
from theodolite.surveys.vectors import measure

DOCUMENTS = sentences(30, seed=81)
survey = partial(whole_survey, sample_size=64)  # neighbours of more take longer than all the rest

TABLES = ("layers", "tokens", "units", "coordinates", "layer_norms")


@pytest.fixture(scope="module")
def bent(small_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT whose norms have random gammas and betas."""
    model, tokenizer = load(small_model("bert"))
    torch.manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "LayerNorm" in name:
                parameter += 0.4 * torch.randn_like(parameter)
    folder = tmp_path_factory.mktemp("bent") / "model"
    save(model, tokenizer, folder)
    return folder


@pytest.mark.parametrize("family", FACTS)
def test_the_norm_placement_and_the_layers(small_model: Any, tmp_path: Path, family: str) -> None:
    found = survey(small_model(family), DOCUMENTS, out=tmp_path / "out")
    post = family in ("bert", "roberta")
    assert found.facts["model"]["norm_placement"] == ("post" if post else "pre")
    facts = json.loads((tmp_path / "out" / "survey.json").read_text())
    assert facts["model"]["norm_placement"] == found.facts["model"]["norm_placement"]
    last = FACTS[family].blocks
    assert sorted(found.norms) == (list(range(last + 1)) if post else [last + 1])


def test_the_file_has_the_parameters_of_the_model(bent: Path, tmp_path: Path) -> None:
    survey(bent, DOCUMENTS, out=tmp_path / "out")
    model = load(bent)[0]
    norms = load_norms(tmp_path / "out")
    modules = [model.embeddings.LayerNorm, *(block.output.LayerNorm for block in model.encoder.layer)]
    for layer, module in enumerate(modules):
        assert norms[layer].kind == "LayerNorm"
        assert norms[layer].eps == 1e-12
        assert torch.allclose(norms[layer].gamma.float(), module.weight)
        assert torch.allclose(norms[layer].beta.float(), module.bias)
    _, tables = open_tables(tmp_path / "out", ["layer_norms"])
    table = tables["layer_norms"]
    assert table.columns.tolist() == COLUMNS
    assert len(table) == 4 * 32
    assert table.query("layer == 2")["gamma"].to_numpy() == pytest.approx(modules[2].weight.detach().numpy())
    again = open_survey(tmp_path / "out")
    assert all(torch.equal(again.norms[layer].gamma, norm.gamma) for layer, norm in norms.items())


def test_predictions_and_their_terms_make_q(bent: Path, tmp_path: Path) -> None:
    survey(bent, DOCUMENTS, out=tmp_path / "out")
    table = predict_q(read_survey_data(tmp_path / "out", TABLES))
    assert table["norm"].tolist() == ["LayerNorm"] * 4
    whole = table["predicted_q"] + table["dropped_square"] + table["dropped_mean"]
    assert whole.to_numpy() == pytest.approx(table["measured_q"].to_numpy(), rel=1e-5)
    # Rows are standardised, so that E z^2 is 1 in the mean over coordinates whatever it is in each.
    assert table["predicted_q"].to_numpy() != pytest.approx(table["measured_q"].to_numpy(), rel=1e-3)


def test_only_layers_that_are_surveyed(bent: Path) -> None:
    assert sorted(survey(bent, DOCUMENTS, layers=[0, 2]).norms) == [0, 2]


def test_merged_surveys_keep_them(bent: Path, tmp_path: Path) -> None:
    parts = [survey(bent, half) for half in (DOCUMENTS[:15], DOCUMENTS[15:])]
    merge(parts, out=tmp_path / "both")
    norms = load_norms(tmp_path / "both")
    assert sorted(norms) == [0, 1, 2, 3]
    assert torch.equal(norms[3].beta, parts[0].norms[3].beta)


def test_surveys_of_vectors_have_no_norm(tmp_path: Path) -> None:
    measure(np.random.default_rng(0).normal(size=(50, 4)), out=tmp_path / "out")
    assert load_norms(tmp_path / "out") == {}
    _, tables = open_tables(tmp_path / "out", ["layer_norms"])
    assert tables["layer_norms"].columns.tolist() == COLUMNS


def test_an_older_folder_is_reported(bent: Path, tmp_path: Path) -> None:
    from theodolite.surveys.folder import _seal

    out = tmp_path / "out"
    survey(bent, DOCUMENTS, out=out)
    facts = json.loads((out / "survey.json").read_text())
    for name in (LAYER_NORMS, "coordinates.parquet"):
        del facts["files"][name]
        (out / name).unlink()
    (out / "survey.json").write_text(json.dumps(facts | {"checksum": _seal(facts)}))
    assert len(open_tables(out)[1]) == 3
    with pytest.raises(InputError, match=r"older version that did not write coordinates.parquet. Survey again"):
        open_tables(out, ["coordinates"])
    with pytest.raises(InputError, match=r"older version that did not write layer_norms.safetensors"):
        open_survey(out)


@pytest.mark.slow
@pytest.mark.weights
def test_minilm_has_the_expected_ratios(tmp_path: Path) -> None:
    # Chitchat, 100 documents: 0.70, 0.97, 1.00, 0.96, 0.94, 0.74, 0.20 of the prediction.
    survey("minilm-l6", "chitchat", limit=12, out=tmp_path / "out", populations=("all",), sample_size=64)
    table = predict_q(read_survey_data(tmp_path / "out", TABLES))
    assert table["norm"].tolist() == ["LayerNorm"] * 7
    whole = table["predicted_q"] + table["dropped_square"] + table["dropped_mean"]
    assert whole.to_numpy() == pytest.approx(table["measured_q"].to_numpy(), rel=1e-5)
    assert table["ratio"][1:5].to_numpy() == pytest.approx(1, abs=0.1)
    assert (table["ratio"][[0, 5]] < 0.85).all()
    # The last block's largest coordinates have gammas close to 0, and the prediction includes them.
    last = table.iloc[-1]
    assert last["ratio"] < 0.3
    assert last["tiny_gammas"] == 3
    assert last["unseen"] > 0.6


@pytest.mark.parametrize("fails", [False, True])
def test_a_placement_that_another_process_does_not_find_is_a_warning(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for at the end, when an error would cost a finished survey."""
    count = WorkerCount(1, 1) if hasattr(os, "fork") else None
    monkeypatch.setattr(worker_processes, "count_workers", lambda tasks: count)
    warnings: list[str] = []
    listener = Listener()
    listener.warn = warnings.append  # type: ignore[method-assign]

    def find() -> Placement:
        if fails:
            raise ValueError("no such norm")
        return Placement("pre", {2: Norm("RMSNorm", torch.ones(3), torch.zeros(3), 1e-6)})

    wait = _find_beside(find, listener)
    assert wait().word == wait().word == (None if fails else "pre")
    assert list(wait().output_norms) == ([] if fails else [2])
    assert warnings == (["the norm placement of the model is not recorded: no such norm"] if fails else [])
