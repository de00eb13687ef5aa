"""The probe's numbers, series, cadence and words."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.integrations.tiny_training import tiny
from tests.shared import slow
from tests.small_models import TOKENIZERS, sentences

from theodolite.errors import InputError
from theodolite.integrations import GeometryProbe, Thresholds
from theodolite.integrations.model_state import hash_weights, unwrap_model
from theodolite.integrations.probe import Budget
from theodolite.studies.number_export.numbers import read_numbers
from theodolite.studies.series import Series

TEXTS = sentences(20, seed=9)


def _probe(tokenizer: Any, **options: Any) -> GeometryProbe:
    return GeometryProbe(TEXTS, tokenizer, **{"every": 1, "share": None, **options})


def _nudge(model: Any, by: float = 0.01) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by * torch.randn_like(parameter))


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_the_numbers_are_those_of_a_survey_of_the_checkpoint(kind: str, tmp_path: Path) -> None:
    import theodolite

    model, tokenizer = tiny(kind)
    probe = _probe(tokenizer, positions=10**6, layers="all", populations=("all", "without-first"))
    probe.measure(model.train(), 7)
    assert probe.layers is not None
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    survey = theodolite.survey(str(tmp_path), corpus=TEXTS).layers
    both = probe.layers.merge(survey, on=["layer", "layer_name", "population"], suffixes=("", "_survey"))
    assert len(both) == len(probe.layers) == 2 * survey["layer"].nunique()
    columns = "n dim types q m v v_within v_between mean_cosine anisotropy_svd effective_rank participation_ratio "
    for column in (columns + "iso_score q_cv pca_dim_90 norm_p50").split():
        ours, theirs = (both[name].astype(float).to_numpy() for name in (column, f"{column}_survey"))
        # Other batches and another centre: both move a sum of float32 states in the sixth digit.
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-9, err_msg=column)
    assert probe.layers["twonn"].isna().all()
    assert "dimension=True" in str(probe.layers["undefined"].iloc[0])


def test_names_are_those_of_an_exported_survey(tmp_path: Path) -> None:
    import theodolite

    model, tokenizer = tiny("decoder")
    logged = _probe(tokenizer).measure(model, 0)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    theodolite.survey(str(tmp_path / "model"), corpus=TEXTS, out=tmp_path / "s", sample_size=0)
    names = ("mean_cosine", "effective_rank")
    exported = read_numbers(tmp_path / "s", layers=None, population="all", measures=names)
    assert {exported.key(one) for one in exported.numbers} == {key for key in logged if key.endswith(names)}


def test_mean_cosine_and_effective_rank_are_their_definitions() -> None:
    model, tokenizer = tiny("decoder")
    probe = _probe(tokenizer, positions=10**6, layers="-1", populations=("all",))
    found = probe.measure(model, 0)
    with torch.no_grad():
        parts = [model.eval().model(**tokenizer(t, return_tensors="pt")).last_hidden_state[0] for t in TEXTS]
    x = torch.cat(parts).double().numpy()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = unit @ unit.T
    mean = (cosines.sum() - len(x)) / (len(x) * (len(x) - 1))
    share = np.linalg.eigvalsh(np.cov(x.T))
    share = share[share > 1e-12] / share.sum()
    # float32 states, once padded in batches and once alone.
    assert found["geometry/final_norm/mean_cosine"] == pytest.approx(mean, abs=1e-6)
    rank = np.exp(-(share * np.log(share)).sum())
    assert found["geometry/final_norm/effective_rank"] == pytest.approx(rank, rel=1e-5)


def test_dimension_is_measured_on_request() -> None:
    model, tokenizer = tiny("encoder")
    probe = _probe(tokenizer, dimension=True, layers=[1], logged=("twonn",))
    found = probe.measure(model, 0)
    assert found["geometry/block_1/twonn"] > 0
    assert probe.layers is not None
    assert (probe.layers["twonn_n"] > 100).all()


def test_a_rogue_coordinate_and_a_long_first_position_do_not_affect_the_watched_numbers() -> None:
    """Over all positions the first one dominates; without massive ones it is excluded, and there is no warning."""
    model, tokenizer = tiny("decoder")
    probe = _probe(tokenizer, layers="-2", collapse=Thresholds(patience=1), weights="none")
    before = probe.measure(model, 0)

    def sink(module: Any, args: Any, output: Any) -> Any:
        states = output[0] if isinstance(output, tuple) else output
        states[:, 0] = 0
        states[:, 0, 3] = 3000.0
        return output

    hook = model.model.layers[-1].register_forward_hook(sink, prepend=True)
    after = probe.measure(model, 1)
    hook.remove()
    assert probe.layers is not None
    rows = probe.layers.set_index("population")
    assert rows.loc["all", "anisotropy_svd"] > 0.99
    assert rows.loc["all", "effective_rank"] < 1.1
    assert after["geometry/block_2/effective_rank"] == pytest.approx(
        before["geometry/block_2/effective_rank"], rel=0.3
    )
    assert not probe.collapses


def test_the_probe_set_is_bounded_by_positions_and_fixed() -> None:
    model, tokenizer = tiny("decoder")
    probe = _probe(tokenizer, positions=50)
    probe.measure(model, 0)
    first = probe.series
    assert first is not None
    assert 50 <= first.corpus["positions"] < 50 + 64
    n = first.table["n"].max()
    _nudge(model)
    probe.measure(model, 1)
    assert set(first.table.loc[first.table["population"] == "all", "n"]) == {n}


def test_a_long_document_does_not_fill_the_set() -> None:
    model, tokenizer = tiny("decoder")
    probe = GeometryProbe([" ".join(TEXTS), *TEXTS[:3]], tokenizer, positions=80)
    probe.measure(model, 0)
    assert probe.series is not None
    assert probe.series.corpus["documents"] > 1
    whole = GeometryProbe([" ".join(TEXTS), *TEXTS[:3]], tokenizer, positions=10**6)
    whole.measure(model, 0)
    assert whole.series is not None
    tokens = sum(len(tokenizer(text)["input_ids"]) for text in [" ".join(TEXTS), *TEXTS[:3]])
    assert whole.series.corpus["positions"] >= tokens  # and a special token more for every further window


def test_at_most_six_layers_by_default() -> None:
    from transformers import BertConfig, BertModel

    tokenizer = TOKENIZERS["bert"]()
    shape = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 64}
    model = BertModel(BertConfig(vocab_size=len(tokenizer), num_hidden_layers=12, **shape))
    layers = {}
    for wanted in (None, "all", "0,3"):
        probe = _probe(tokenizer, layers=wanted, positions=64)
        probe.measure(model, 0)
        assert probe.layers is not None
        layers[wanted] = probe.layers["layer"].unique().tolist()
    assert layers == {None: [0, 2, 5, 7, 10, 12], "all": list(range(13)), "0,3": [0, 3]}


def test_the_series_is_written_at_every_measurement_and_can_be_read(tmp_path: Path) -> None:
    model, tokenizer = tiny("encoder")
    probe = _probe(tokenizer, every=10, out=tmp_path / "s", name="mine")
    for step in range(31):
        probe(model, step)
        _nudge(model)
    series = Series.read(tmp_path / "s")
    assert [each.step for each in series.steps] == [0, 10, 20, 30]
    assert series.model["name"] == "mine"
    assert len({each.sha256 for each in series.steps}) == 4
    assert set(series.table["population"]) == {"all", "without-massive"}
    assert series.table["effective_rank"].notna().all()


def test_an_existing_series_is_rejected_replaced_or_continued(tmp_path: Path) -> None:
    model, tokenizer = tiny("encoder")
    out = tmp_path / "s"
    first = _probe(tokenizer, out=out)
    for step in range(4):
        first.measure(model, step)
        _nudge(model)
    with pytest.raises(InputError, match=r"already holds a series.*overwrite=True.*resume=True"):
        _probe(tokenizer, out=out)
    _probe(tokenizer, out=out, resume=True).measure(model, 2)  # from a checkpoint of step 2
    assert [each.step for each in Series.read(out).steps] == [0, 1, 2]
    with pytest.raises(InputError, match="another probe set"):
        GeometryProbe(["another text"], tokenizer, out=out, resume=True).measure(model, 3)
    with pytest.raises(InputError, match="other settings"):
        _probe(tokenizer, out=out, resume=True, layers="0").measure(model, 3)
    _probe(tokenizer, out=out, overwrite=True).measure(model, 5)
    assert [each.step for each in Series.read(out).steps] == [5]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"holds thesis\.tex and no series"):
        _probe(tokenizer, out=tmp_path / "full", overwrite=True)


def test_a_step_measured_after_later_ones_replaces_them_with_a_warning() -> None:
    model, tokenizer = tiny("encoder")
    probe = _probe(tokenizer)
    for step in (0, 5, 10, 15):
        probe.measure(model, step)
        _nudge(model)
    with pytest.warns(UserWarning, match=r"step 7 is measured after later steps, which are removed .*: 10, 15$"):
        probe.measure(model, 7)
    assert probe.series is not None
    assert [each.step for each in probe.series.steps] == [0, 5, 7]


def test_columns_that_are_never_measured_are_not_logged_without_a_word() -> None:
    model, tokenizer = tiny("encoder")
    with pytest.raises(InputError, match=r"logged: 'twonn' requires dimension=True"):
        _probe(tokenizer, logged=("twonn",))
    with pytest.raises(InputError, match=r"logged: 'layer_name' is not known"):
        _probe(tokenizer, logged=("layer_name",))
    probe = _probe(tokenizer, logged=("self_similarity", "q"))
    with pytest.warns(UserWarning, match=r"logged: self_similarity is undefined in every layer \(the survey was"):
        numbers = probe.measure(model, 0)
    assert "geometry/block_1/q" in numbers


def test_unchanged_weights_are_reported() -> None:
    model, tokenizer = tiny("encoder")
    probe = _probe(tokenizer)
    probe.measure(model, 0)
    with pytest.warns(UserWarning, match="step 1: the weights equal those of step 0"):
        probe.measure(model, 1)


@pytest.mark.parametrize("way", ["sampled", "whole"])
def test_the_digest_of_the_weights(way: str) -> None:
    model, _ = tiny("encoder")
    twin, _ = tiny("encoder")
    assert hash_weights(model, way) == hash_weights(twin, way)
    assert hash_weights(model, "none") is None
    _nudge(twin, 1e-6)
    assert hash_weights(model, way) != hash_weights(twin, way)
    assert hash_weights(model.to(torch.bfloat16), way) != hash_weights(twin, way)


@pytest.mark.slow
def test_wrappers_are_removed() -> None:
    model, _ = tiny("decoder")
    assert unwrap_model(torch.nn.DataParallel(model)) is model.model
    assert unwrap_model(torch.compile(model)) is model.model
    assert unwrap_model(model.model) is model.model


def test_bfloat16_weights_are_measured_as_they_are() -> None:
    model, tokenizer = tiny("decoder")
    exact = _probe(tokenizer).measure(model, 0)["geometry/block_2/effective_rank"]
    model.to(torch.bfloat16)
    half = _probe(tokenizer).measure(model, 0)["geometry/block_2/effective_rank"]
    assert next(model.parameters()).dtype == torch.bfloat16
    assert half == pytest.approx(exact, rel=0.05)


def test_a_model_with_nan_weights_gives_a_warning_and_training_continues() -> None:
    model, tokenizer = tiny("decoder")
    probe = _probe(tokenizer)
    probe.measure(model, 0)
    with torch.no_grad():
        model.model.embed_tokens.weight.fill_(float("nan"))
    with pytest.warns(UserWarning, match="step 1: the geometry could not be measured: .*NaN or infinite"):
        assert probe.measure(model, 1) == {"geometry/failed": 1.0}


def _failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*given: Any, **named: Any) -> Any:
        raise error

    monkeypatch.setattr("theodolite.integrations.probe.measure_layers", fail)


def test_errors_during_training_become_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = tiny("decoder")
    probe = _probe(tokenizer)
    probe.measure(model.train(), 0)
    _nudge(model)
    with monkeypatch.context() as patch:
        _failing(patch, torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB."))
        words = r"^step 1: the geometry could not be measured: OutOfMemoryError: CUDA out of memory\.$"
        with pytest.warns(UserWarning, match=words):
            assert probe.measure(model, 1) == {"geometry/failed": 1.0}
        _failing(patch, ValueError())
        with pytest.warns(UserWarning, match="measured: ValueError$"):
            probe.measure(model, 2)
    assert model.training
    assert "geometry/failed" not in probe.measure(model, 3)


def test_the_first_error_and_an_interruption_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = tiny("decoder")
    probe = _probe(tokenizer)
    with monkeypatch.context() as patch:
        _failing(patch, torch.OutOfMemoryError("CUDA out of memory"))
        with pytest.raises(torch.OutOfMemoryError):
            probe.measure(model, 0)
    probe.measure(model, 1)
    _failing(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        probe.measure(model, 2)


def test_a_warning_that_is_made_an_error_ends_training() -> None:
    model, tokenizer = tiny("encoder")
    probe = _probe(tokenizer)
    probe.measure(model, 0)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="step 1: the weights equal those of step 0")
        with pytest.raises(UserWarning, match="the weights equal those of step 0"):
            probe.measure(model, 1)


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_measurements_are_skipped_to_keep_the_budget() -> None:
    """Steps of 1/8 s and measurements of 1/2 s: 1/64 allows one in 256 steps, though one is due in 16."""
    clock = _Clock()
    budget = Budget(1 / 64, clock=clock)
    budget.start()
    taken = []
    for step in range(3001):
        if step % 16 == 0 and budget.fits():
            taken.append(step)
            clock.now += 0.5
            budget.spend(0.5)
        clock.now += 0.125
    # The first is overdrawn: two must be earned before the second.
    assert taken == [0, *range(512, 3001, 256)]
    assert budget.used <= 1 / 64


def test_a_budget_of_none_skips_nothing_and_the_default_does() -> None:
    model, tokenizer = tiny("encoder")
    for share, count in ((None, 5), (0.02, 1)):  # five calls in a row leave no time for training
        probe = _probe(tokenizer, share=share, weights="none")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert sum(bool(probe(model, step)) for step in range(5)) == count
        assert sum("a measurement was skipped" in str(each.message) for each in seen) == (count < 5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": 0}, r"every must be an integer number of steps, at least 1 \(got 0\)"),
        ({"positions": 1.5}, r"positions must be an integer number of positions, at least 1 \(got 1\.5\)"),
        ({"share": "2%"}, r"share must be a fraction of the training time, above 0 and at most 1 \(got '2%'\)"),
        ({"share": 2}, r"share must be a fraction of the training time, above 0 and at most 1 \(got 2\)"),
        (
            {"populations": ("without-frist",)},
            r"populations: 'without-frist' is not known\. Did you mean 'without-f",
        ),
        ({"populations": "all"}, r"populations must be a list of names such as all"),
        ({"logged": ["effective_rnk"]}, r"logged: 'effective_rnk' is not known\. Did you mean 'effective_rank'"),
        ({"weights": "md5"}, r"weights: 'md5' is not known.* Known: sampled, whole, none\."),
    ],
)
def test_wrong_arguments_are_rejected_with_a_message(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        GeometryProbe(["a text"], TOKENIZERS["bert"](), **options)


def test_texts_and_steps_of_a_wrong_type_are_named_by_their_type() -> None:
    tokenizer = TOKENIZERS["bert"]()
    with pytest.raises(InputError, match=r"texts requires strings, .* \(got a value of type \w+\)\."):
        GeometryProbe(tokenizer, ["a text"])
    with pytest.raises(
        InputError, match=r"step must be the number .* of type Linear\); call the probe as probe\(mod"
    ):
        GeometryProbe(["a text"], tokenizer)(0, torch.nn.Linear(2, 2))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"rank": 0}, {"rank": 1.5}, {"spread": float("nan")}])
def test_thresholds_must_be_fractions(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="must be a fraction of the first measurement, between 0 and 1"):
        Thresholds(**wrong)
    with pytest.raises(InputError, match="patience must be a number of measurements"):
        Thresholds(patience=0)


def test_wrong_models_and_tokenizers_are_rejected_with_a_message() -> None:
    model, tokenizer = tiny("encoder")
    with pytest.raises(InputError, match="got a value of type str"):
        _probe(tokenizer).measure("bert", 0)
    with pytest.raises(InputError, match="Linear has no transformers configuration; use ModuleProbe"):
        _probe(tokenizer).measure(torch.nn.Linear(2, 2), 0)
    with pytest.raises(InputError, match="tokenizer is missing; give the tokenizer"):
        _probe(None).measure(model, 0)
    with pytest.raises(InputError, match="texts is empty; give at least one text"):
        GeometryProbe(iter(()), tokenizer).measure(model, 0)
    with pytest.raises(InputError, match="layer 9, which does not exist"):
        _probe(tokenizer, layers="9").measure(model, 0)
    small, _ = tiny("encoder")
    small.resize_token_embeddings(8)
    with pytest.raises(InputError, match=r"it returns the id \d+, but the vocabulary of the model has 8 ids"):
        _probe(tokenizer).measure(small, 0)
    assert small.training == tiny("encoder")[0].training


@pytest.mark.parametrize("name", ["dynamics/fig2", slow("dynamics/fig3")])
def test_exhibits_draw_the_series(name: str, tmp_path: Path) -> None:
    from theodolite.exhibits.registry import find, make
    from theodolite.studies.reading import read_survey_data

    model, tokenizer = tiny("encoder")
    probe = _probe(tokenizer, out=tmp_path / "s", dimension=True, layers=[0, 1, 2])
    for step in (0, 1, 4, 16):
        probe.measure(model, step)
        _nudge(model)
    plate = make(find(name), [read_survey_data(tmp_path / "s")])
    assert set(plate.data["step"]) == {0, 1, 4, 16}
