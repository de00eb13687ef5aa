"""A survey of several checkpoints: duplicates are rejected before anything runs; runs are resumed and extended."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.small_models import make, sentences
from tests.training_steps import checkpoints

import theodolite
from theodolite.corpora.media_corpus import BadFileError
from theodolite.engines.progress import Listener
from theodolite.errors import InputError, TheodoliteError
from theodolite.studies.series import Series
from theodolite.studies.series import dynamics as study
from theodolite.studies.series.averages import SCOPES, average_layers
from theodolite.studies.series.dynamics import dynamics
from theodolite.studies.series.leads import MEAN, make_lead_table
from theodolite.studies.series.leads import describe_leads as lead_sentences
from theodolite.surveys.folder import open_tables

STEPS = (0, 10, 100)
OPTIONS = {"sample_size": 64, "limit": 20}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints(tmp_path_factory.mktemp("runs"), (*STEPS, 1000))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpora") / "texts.txt"
    path.write_text("\n".join(sentences(60, longest=9)) + "\n", encoding="utf-8")
    return path


class RecordingListener(Listener):
    def __init__(self, stop_at: str = "") -> None:
        self.lines: list[str] = []
        self.warnings: list[str] = []
        self.stop_at = stop_at

    def say(self, text: str) -> None:
        self.lines.append(text)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def stop(self) -> bool:
        return bool(self.stop_at) and any(self.stop_at in line for line in self.lines)


def folders(runs: Path, steps=STEPS) -> list[str]:
    return [str(runs / f"checkpoint-{step}") for step in steps]


@pytest.fixture(scope="module")
def made(runs: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Series, Path]:
    out = tmp_path_factory.mktemp("made") / "series"
    unsorted = folders(runs, (100, 0, 10))
    return dynamics("tiny", str(corpus), out, checkpoints=unsorted, options=OPTIONS), out


@pytest.mark.slow
def test_the_series_is_the_surveys_one_after_the_other(made, runs: Path, corpus: Path) -> None:
    series, out = made
    assert [step.step for step in series.steps] == list(STEPS)
    whole = Series.read(out)
    for step in STEPS:
        alone = theodolite.survey(runs / f"checkpoint-{step}", corpus, **OPTIONS).layers
        rows = whole.table[whole.table["step"] == step].reset_index(drop=True)
        for column in ("layer", "population", "m", "mean_cosine", "anisotropy_svd", "twonn"):
            assert rows[column].tolist() == pytest.approx(alone[column].tolist(), nan_ok=True)
        facts, _ = open_tables(out / "steps" / str(step), [])
        assert facts["identity"]["corpus"]["sha256"] == whole.corpus["sha256"]
        assert facts["identity"]["model"]["sha256"] == whole.steps[STEPS.index(step)].sha256
    pilots = {(out / "steps" / str(step) / "pilot.safetensors").read_bytes() for step in STEPS}
    assert len(pilots) == 3  # each has its own
    assert whole.model["name"] == "tiny"
    assert whole.model["causal"] is True
    assert set(whole.tables) == {"series", "attention", "attention_rows"}
    assert sorted(whole.tables["attention"]["step"].unique()) == list(STEPS)


def test_the_same_command_again_does_nothing(made, runs: Path, corpus: Path) -> None:
    _, out = made
    before = (out / "series.parquet").stat().st_mtime_ns
    recorder = RecordingListener()
    dynamics("tiny", str(corpus), out, checkpoints=folders(runs), options=OPTIONS, listener=recorder)
    assert [line for line in recorder.lines if line.startswith("step")] == [
        f"step {step}: already surveyed" for step in STEPS
    ]
    assert (out / "series.parquet").stat().st_mtime_ns == before


def test_more_checkpoints_are_added(made, runs: Path, corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(made[1], tmp_path / "series")
    added = dynamics(
        "tiny", str(corpus), tmp_path / "series", checkpoints=[f"{runs}/checkpoint-{{step}}"], options=OPTIONS
    )
    assert [step.step for step in added.steps] == [*STEPS, 1000]
    assert len(added.tables["attention"]) == 4 * 3 * 2


def test_two_steps_with_the_same_weights_are_rejected_by_name(runs: Path, corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "checkpoint-10", tmp_path / "checkpoint-4000")
    both = [*folders(runs), str(tmp_path / "checkpoint-4000")]
    recorder = RecordingListener()
    with pytest.raises(InputError, match="Steps 10 and 4000 have the same weights"):
        dynamics("tiny", str(corpus), tmp_path / "out", checkpoints=both, options=OPTIONS, listener=recorder)
    assert not (tmp_path / "out").exists()  # before anything was surveyed
    assert not any("loading" in line for line in recorder.lines)


def test_a_duplicate_of_a_step_in_the_series_is_rejected(made, runs: Path, corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(made[1], tmp_path / "series")
    shutil.copytree(runs / "checkpoint-10", tmp_path / "checkpoint-4000")
    with pytest.raises(InputError, match="Steps 10 and 4000 have the same weights"):
        dynamics(
            "tiny",
            str(corpus),
            tmp_path / "series",
            checkpoints=[str(tmp_path / "checkpoint-4000")],
            options=OPTIONS,
        )
    shutil.copytree(runs / "checkpoint-1000", tmp_path / "checkpoint-10")
    with pytest.raises(InputError, match="Step 10 was surveyed with other weights"):
        dynamics(
            "tiny",
            str(corpus),
            tmp_path / "series",
            checkpoints=[str(tmp_path / "checkpoint-10")],
            options=OPTIONS,
        )


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["step 10 (2 of 3)", "pilot", "attention on"])
def test_interrupted_and_resumed_it_is_the_same(
    made, runs: Path, corpus: Path, tmp_path: Path, moment: str
) -> None:
    series, _ = made
    out, given = tmp_path / "series", {"checkpoints": folders(runs), "options": OPTIONS}
    with pytest.raises(TheodoliteError, match=r"[Ii]nterrupted.*[Rr]un the same command to continue"):
        dynamics("tiny", str(corpus), out, listener=RecordingListener(moment), **given)
    assert len(Series.read(out).steps) < 3
    recorder = RecordingListener()
    again = dynamics("tiny", str(corpus), out, listener=recorder, **given)
    assert again.table.drop(columns="undefined").equals(series.table.drop(columns="undefined"))
    assert again.tables["attention"].equals(series.tables["attention"])


def test_a_step_surveyed_but_not_in_the_series_yet_is_used(
    made, runs: Path, corpus: Path, tmp_path: Path, monkeypatch
):
    """Killed between a survey's end and the series': the survey is not made again."""
    series, out = made
    shutil.copytree(out, tmp_path / "series")
    shorter = Series.of("tiny", series.corpus, **series.settings)
    shorter.write(tmp_path / "series")
    monkeypatch.setattr(study, "survey_checkpoint", lambda *given, **named: pytest.fail("surveyed again"))
    again = dynamics("tiny", str(corpus), tmp_path / "series", checkpoints=folders(runs), options=OPTIONS)
    assert again.table["twonn"].equals(series.table["twonn"])


def test_an_error_of_a_step_keeps_its_class_and_names_the_step(
    runs: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given, **named):
        raise BadFileError("a.png", "does not decode")  # of a name and a reason, not of one sentence

    monkeypatch.setattr(study, "survey_checkpoint", fail)
    with pytest.raises(BadFileError, match=r"^Step 10: CORPUS: 'a\.png' does not decode; fix or") as caught:
        dynamics("tiny", str(corpus), tmp_path / "x", checkpoints=folders(runs, [10]), options=OPTIONS)
    assert caught.value.name == "a.png"


def test_other_invalid_input_is_rejected(made, runs: Path, corpus: Path, tmp_path: Path) -> None:
    given = {"checkpoints": folders(runs)}
    with pytest.raises(InputError, match=r"a series with other options:\n  sample_size: 64 there, 65 now"):
        dynamics("tiny", str(corpus), made[1], options=OPTIONS | {"sample_size": 65}, **given)
    with pytest.raises(InputError, match=r"corpus_sha256: .* there, .* now\n  limit: 20 there, 19 now"):
        dynamics("tiny", str(corpus), made[1], options=OPTIONS | {"limit": 19}, **given)
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes").write_text("mine")
    with pytest.raises(InputError, match="contains notes and no series"):
        dynamics("tiny", str(corpus), tmp_path / "used", options=OPTIONS, **given)
    Series.of("tiny", "probe").write(tmp_path / "training")
    with pytest.raises(InputError, match="written during training"):
        dynamics("tiny", str(corpus), tmp_path / "training", options=OPTIONS, **given)
    with pytest.raises(InputError, match=r"--attention requires .* \(got -1\)"):
        dynamics("tiny", str(corpus), tmp_path / "x", attention=-1, **given)


def test_a_gap_and_a_single_step_are_reported(runs: Path, corpus: Path, tmp_path: Path) -> None:
    recorder = RecordingListener()
    one = dynamics(
        "tiny", str(corpus), tmp_path / "one", checkpoints=folders(runs, [10]), options=OPTIONS, listener=recorder
    )
    assert len(one.steps) == 1
    assert recorder.warnings == ["there is only one step, so no change of the geometry can be measured"]
    table = make_lead_table(one.as_survey_data())
    assert set(table["order"]) == {"undecided"}
    assert json.loads(table["undefined"].iloc[0])["drift_half"] == "fewer than three steps"
    assert "the norm of the mean state: undefined (fewer than three steps)" in lead_sentences(table, "all")[0]
    assert "the order is undecided" in lead_sentences(table, "all")[1]
    assert average_layers(one.as_survey_data())["step"].unique().tolist() == [10]


def test_a_tokenizer_saved_with_one_checkpoint_is_used_for_all(runs: Path, corpus: Path, tmp_path: Path) -> None:
    bare = checkpoints(tmp_path / "bare", (0, 10), tokenizer=False)
    given = {"checkpoints": [f"{bare}/checkpoint-{{step}}"], "options": OPTIONS, "attention": 0}
    with pytest.raises(InputError, match="has no tokenizer, and the tokenizer of MODEL 'tiny' was not found"):
        dynamics("tiny", str(corpus), tmp_path / "no", **given)
    lent = dynamics(str(bare / "start"), str(corpus), tmp_path / "yes", **given)
    assert len(lent.steps) == 2
    assert set(lent.tables) == {"series"}  # no attention was asked for
    (tmp_path / "words").mkdir()
    shutil.copy(bare / "start" / "tokenizer.json", tmp_path / "words")
    shutil.copy(bare / "start" / "tokenizer_config.json", tmp_path / "words")
    alone = dynamics(
        "tiny", str(corpus), tmp_path / "alone", name="mine", tokenizer=str(tmp_path / "words"), **given
    )
    assert alone.model["name"] == "mine"
    assert alone.table["q"].tolist() == lent.table["q"].tolist()
    with pytest.raises(InputError, match=r"--tokenizer './none' was not found"):
        dynamics("tiny", str(corpus), tmp_path / "no", tokenizer="./none", **given)


def test_checkpoints_of_an_adapter_are_read_with_their_base(corpus: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    import torch
    from transformers import AutoModelForCausalLM

    base = make("gpt2", tmp_path / "base")
    AutoModelForCausalLM.from_pretrained(base).save_pretrained(base)  # with a head, as an adapter is trained
    for step in (10, 20):
        torch.manual_seed(step)
        model = AutoModelForCausalLM.from_pretrained(base)
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True))
        with torch.no_grad():
            for name, parameter in adapted.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(std=0.3)
        adapted.save_pretrained(tmp_path / f"checkpoint-{step}")
        adapted.merge_and_unload().save_pretrained(tmp_path / f"merged-{step}")
    made = [
        dynamics(
            str(base),
            str(corpus),
            tmp_path / name,
            checkpoints=[str(tmp_path / f"{name}-*")],
            options=OPTIONS | {"limit": 10},
            attention=0,
        )
        for name in ("checkpoint", "merged")
    ]
    assert [each.step for each in made[0].steps] == [10, 20]
    # Merged weights round once more: (W + BA) x instead of W x + B (A x).
    np.testing.assert_allclose(made[0].table["q"], made[1].table["q"], rtol=1e-4)
    first, second = (made[0].table.loc[made[0].table["step"] == step, "q"].to_numpy() for step in (10, 20))
    assert not np.allclose(first, second, rtol=1e-3)


def test_checkpoints_of_an_adapter_are_rejected_with_a_remedy(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "peft" else find_spec(name, *more)
    )
    folder = tmp_path / "checkpoint-10"
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "org/base", "peft_type": "LORA"}')
    (folder / "adapter_model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"only an adapter of org/base, not a complete model\. "):
        dynamics("tiny", str(corpus), tmp_path / "x", checkpoints=[str(folder)], options=OPTIONS)


def test_another_model_is_rejected_as_a_step(made, runs: Path, corpus: Path, tmp_path: Path) -> None:
    make("bert", tmp_path / "checkpoint-500")
    shutil.copytree(made[1], tmp_path / "series")
    with pytest.raises(InputError, match=r"Step 500 is not comparable with step 0; its survey differs:\n"):
        dynamics(
            "tiny",
            str(corpus),
            tmp_path / "series",
            checkpoints=[str(tmp_path / "checkpoint-500")],
            options=OPTIONS,
        )


def test_averages_are_the_means_of_the_layers(made) -> None:
    series, out = made
    survey = series.as_survey_data(out)
    table = average_layers(survey)
    whole = {(r["step"], r["population"], r["scope"], r["measure"]): r for r in table.to_dict("records")}
    names = {"blocks": ["block 1", "block 2", "block 3"], "final-norm": ["final norm"]}
    names["with-embeddings"] = ["embeddings", *names["blocks"]]
    assert set(table["scope"]) == set(SCOPES)
    for step in STEPS:
        for population in survey.facts["populations"]:
            rows = series.table[(series.table["step"] == step) & (series.table["population"] == population)]
            for scope, expected in names.items():
                part = rows[rows["layer_name"].isin(expected)]
                found = whole[step, population, scope, "mean_cosine"]
                assert found["mean"] == pytest.approx(part["mean_cosine"].mean())
                assert found["se"] == pytest.approx(part["mean_cosine_se"].mean())
                assert found["layers"] == len(expected)
                norm = whole[step, population, scope, "mean_norm"]["mean"]
                assert norm == pytest.approx(np.sqrt(part["m"]).mean())
    assert "n" not in set(table["measure"])
    assert not table["measure"].str.endswith("_se").any()
    assert {"q", "twonn", "effective_rank", "tradeoff_slope"} <= set(table["measure"])


def test_leads_are_of_every_block_and_their_mean(made) -> None:
    series, out = made
    table = make_lead_table(series.as_survey_data(out))
    assert len(table) == 2 * 4 * 2 * 2  # populations, blocks and their mean, drifts, sharpnesses
    assert table["layer_name"].unique().tolist() == [MEAN, "block 1", "block 2", "block 3"]
    lines = lead_sentences(table, "all")
    assert len(lines) == 7
    assert lines[0].startswith("Half-way: the norm of the mean state ")
    assert "Lagged correlations are omitted: they require 6 pairs of changes (got 1)" in lines[5]


def test_pictures_have_a_series_too_without_attention(tmp_path: Path) -> None:
    import torch
    from PIL import Image
    from transformers import ViTConfig, ViTImageProcessorPil, ViTModel

    rng = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    for number in range(6):
        pixels = rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / f"{number}.png")
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    for step in (1, 2):
        torch.manual_seed(step)
        ViTModel(ViTConfig(**sizes, image_size=32, patch_size=16)).save_pretrained(tmp_path / f"step-{step}")
        ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path / f"step-{step}")
    made = dynamics(
        "vit",
        str(tmp_path / "pictures"),
        tmp_path / "out",
        checkpoints=[f"{tmp_path}/step-*"],
        options={"sample_size": 8},
    )
    assert [step.step for step in made.steps] == [1, 2]
    assert set(made.tables) == {"series"}
    assert made.model["modality"] == "vision"
    again = RecordingListener()
    dynamics(
        "vit",
        str(tmp_path / "pictures"),
        tmp_path / "out",
        checkpoints=[f"{tmp_path}/step-*"],
        options={"sample_size": 8},
        listener=again,
    )
    assert "step 2: already surveyed" in again.lines


def test_streams_are_in_the_series_and_not_in_averages(runs: Path, corpus: Path, tmp_path: Path) -> None:
    options, two = OPTIONS | {"limit": 10, "layers": "0-1"}, folders(runs, STEPS[:2])
    plain = dynamics("m", corpus, tmp_path / "a", checkpoints=two, attention=0, options=options)
    both = options | {"streams": ("residual", "k")}
    made = dynamics("m", corpus, tmp_path / "b", checkpoints=two, attention=0, options=both)
    assert set(made.table["layer_name"]) == {"embeddings", "block 1", "block 1/k"}
    expected, found = (average_layers(series.as_survey_data(), ["all"], ["q"]) for series in (plain, made))
    assert found["mean"].tolist() == expected["mean"].tolist()
    again = dynamics("m", corpus, tmp_path / "b", checkpoints=two, attention=0, options=both)
    assert len(again.steps) == 2
