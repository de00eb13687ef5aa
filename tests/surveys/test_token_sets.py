"""The second pass, against plain transformers on one document at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.shared import slow
from tests.small_models import blocks_of, load, sentences

from theodolite.engines.progress import Listener, Progress
from theodolite.state.pilot import Pilot
from theodolite.storage.files import read_tensors
from theodolite.studies.norm_variance.token_sets import make_token_sets
from theodolite.studies.reading import read_survey_data
from theodolite.surveys.api import survey
from theodolite.surveys.reopen import reopen
from theodolite.surveys.token_sets import PositionFilter, gather

ROUNDING = 1e-4  # float32 through three blocks, in batches padded otherwise
TEXTS = [*sentences(90, longest=8), "a mountain."]
LAYER = 2


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpora") / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory: pytest.TempPathFactory, small_model: Callable[[str], Path], corpus: Path) -> Path:
    out = tmp_path_factory.mktemp("surveys") / "bert"
    survey(small_model("bert"), corpus, out=out, sample_size=8, batch_tokens=256)
    return out


def states(folder: Path, token: str) -> torch.Tensor:
    """Every state of a token at the layer, sorted; documents here fit into one window."""
    model, tokenizer = load(folder)
    found = []
    for text in TEXTS:
        encoded = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            hidden = model(**encoded, output_hidden_states=True).hidden_states[LAYER][0]
        found.append(hidden[encoded["input_ids"][0] == tokenizer.convert_tokens_to_ids(token)])
    return by_row(torch.cat(found))


def by_row(rows: torch.Tensor) -> torch.Tensor:
    return rows[torch.argsort(rows[:, 0])]


class RecordingListener(Listener):
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shares: list[float] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def progress(self, progress: Progress) -> None:
        self.shares.append(progress.share)


def test_below_the_limit_a_set_is_every_state(surveyed: Path, small_model: Callable[[str], Path]) -> None:
    made = make_token_sets(surveyed, layer=LAYER, units=["mountain", "##or", "the"], most=1000)
    tensors, _ = read_tensors(surveyed / "token_sets.safetensors")
    for number, unit in enumerate(made.chosen["unit"]):
        theirs = states(small_model("bert"), unit)
        mine = tensors["vectors"][tensors["unit"] == number]
        assert len(theirs) == made.chosen["n"][number] == made.chosen["kept"][number]
        assert by_row(mine) == pytest.approx(theirs, abs=ROUNDING)
        assert tensors["means"][number] == pytest.approx(theirs.double().mean(dim=0), abs=ROUNDING)
        m = float((tensors["means"][number] ** 2).sum())  # the second pass finds what the survey measured
        assert m == pytest.approx(made.chosen["m"][number], rel=ROUNDING)


def test_above_the_limit_the_smallest_keys_are_kept_and_the_mean_is_over_all(surveyed: Path) -> None:
    whole = make_token_sets(surveyed, layer=LAYER, units=["the", "of"], most=1000)
    every, _ = read_tensors(surveyed / "token_sets.safetensors")
    capped = make_token_sets(surveyed, layer=LAYER, units=["the", "of"], most=5)
    some, _ = read_tensors(surveyed / "token_sets.safetensors")
    assert capped.chosen["kept"].tolist() == [5, 5]
    assert capped.chosen["n"].tolist() == whole.chosen["n"].tolist()
    for number in range(2):
        keys = every["key"][every["unit"] == number]
        order = torch.argsort(keys)[:5]
        assert some["key"][some["unit"] == number].tolist() == keys[order].tolist()
        vectors = every["vectors"][every["unit"] == number][order]
        assert torch.equal(some["vectors"][some["unit"] == number], vectors)
    assert torch.equal(some["means"], every["means"])
    assert np.allclose(capped.chosen[["x", "y"]], whole.chosen[["x", "y"]])


def test_only_documents_that_hold_a_token_are_run_and_only_as_far_as_the_layer(
    surveyed: Path, small_model: Callable[[str], Path]
) -> None:
    listener, read_by_model = RecordingListener(), []
    reopened = reopen(read_survey_data(surveyed, ()).facts, [LAYER])
    above = blocks_of(reopened.source.anatomy.model, "bert")[LAYER]
    above.register_forward_hook(lambda *_: pytest.fail("a block above the layer was run"))
    prepare = reopened.source.prepare
    reopened.source.prepare = lambda documents: read_by_model.extend(documents) or prepare(documents)  # type: ignore[method-assign,func-returns-value]
    gather(reopened, ["mountain", "##or"], listener=listener)
    tokenize = load(small_model("bert"))[1].tokenize
    theirs = [text for text in TEXTS if {"mountain", "##or"} & set(tokenize(text))]
    assert [text for _, text in read_by_model] == theirs
    assert 0 < len(theirs) < len(TEXTS)
    assert (
        f"second pass, layer 2: {len(theirs)} of {len(TEXTS)} documents contain one of the 2 chosen tokens"
        in listener.lines
    )
    assert listener.shares[-1] == pytest.approx(1)


@pytest.mark.parametrize(("family", "units"), [slow("gpt2", "surface"), ("llama", "word")])
def test_other_models_and_units(
    family: str, units: str, small_model: Callable[[str], Path], corpus: Path, tmp_path: Path
) -> None:
    survey(small_model(family), corpus, out=tmp_path / "s", units=units, sample_size=8, layers="0,2")
    made = make_token_sets(tmp_path / "s", layer=2, units=["the", "of"])
    tensors, _ = read_tensors(tmp_path / "s" / "token_sets.safetensors")
    for number in range(2):
        x = tensors["vectors"][tensors["unit"] == number].double()
        row = made.chosen.iloc[number]
        assert len(x) == row["n"] > 2
        assert float((x**2).sum(dim=1).mean()) == pytest.approx(row["q"], rel=ROUNDING)
        assert float(((x - x.mean(dim=0)) ** 2).sum(dim=1).mean()) == pytest.approx(row["v"], rel=ROUNDING)


def test_parts_and_filters_are_read_again_as_they_were(
    small_model: Callable[[str], Path], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("theodolite.surveys.text_survey.SHARD_CHARS", 400)
    out = tmp_path / "part"
    survey(small_model("bert"), corpus, out=out, part="1/3", min_words=5, sample_size=8)
    made = make_token_sets(out, units=["the", "of"])  # raises if counts differ
    assert made.facts["of"] < len(TEXTS) / 2
    assert made.layer == 1


@pytest.mark.parametrize("population", ["all", slow("without-first"), "without-massive"])
def test_positions_are_excluded_as_in_the_survey(
    population: str,
    small_model: Callable[[str], Path],
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A small random model has no massive norm, so the line is drawn at 1.02 times the median here."""
    monkeypatch.setattr("theodolite.state.pilot.MASSIVE", 1.02)
    folder = small_model("gpt2")
    survey(folder, corpus, out=tmp_path / "s", units="surface", sample_size=8, layers=[LAYER])
    made = make_token_sets(tmp_path / "s", units=["the", "1", "of"], most=1000, population=population)
    tensors, _ = read_tensors(tmp_path / "s" / "token_sets.safetensors")
    assert made.population == made.facts["population"] == population
    line = 1.02 * Pilot.load(tmp_path / "s").layers[LAYER].median_norm
    found: dict[str, list[torch.Tensor]] = {}
    left_out = set()
    model, tokenizer = load(folder)
    for text in TEXTS:
        encoded = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**encoded, output_hidden_states=True).hidden_states[LAYER][0]
        for place, token in enumerate(tokenizer.convert_ids_to_tokens(encoded["input_ids"][0])):
            out = (population == "without-first" and place == 0) or (
                population == "without-massive" and float(hidden[place].double().norm()) > line
            )
            if out:
                left_out.add(token.removeprefix("Ġ"))
            else:
                found.setdefault(token.removeprefix("Ġ"), []).append(hidden[place])
    assert bool(left_out & {"the", "1", "of"}) == (population != "all")
    for number, row in made.chosen.iterrows():
        x = torch.stack(found[row["unit"]]).double()
        assert len(x) == row["n"] == row["kept"]
        assert float((x**2).sum(dim=1).mean()) == pytest.approx(row["q"], rel=ROUNDING)
        assert tensors["means"][number] == pytest.approx(x.mean(dim=0), abs=ROUNDING)  # type: ignore[index]
        mine = tensors["vectors"][tensors["unit"] == number]
        assert by_row(mine) == pytest.approx(by_row(x.float()), abs=ROUNDING)


def test_a_population_is_the_cells_that_make_it() -> None:
    vectors = torch.tensor([[3.0, 4.0], [3.0, 4.0], [30.0, 40.0], [30.0, 40.0], [0.0, 0.0]])
    first = torch.tensor([False, True, False, True, False])
    assert PositionFilter().select(vectors, first).tolist() == [True] * 5
    others = PositionFilter("without-first", 10.0).select(vectors, first)
    assert others.tolist() == [True, False, True, False, True]
    ordinary = PositionFilter("without-massive", 10.0).select(vectors, first)
    assert ordinary.tolist() == [True, True, False, False, True]
    assert (
        PositionFilter("without-massive", 50.0).select(vectors, first).all()
    )  # massive is above the line, not on it
