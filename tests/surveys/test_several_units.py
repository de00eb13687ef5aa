"""Surveys by several kinds of units in one pass equal those by each kind alone, bit for bit."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tests.encoder_decoders import saved
from tests.shared import shared_folder, slow
from tests.small_models import sentences
from tests.surveys import runner

from theodolite.engines.progress import Listener
from theodolite.errors import InputError, MemoryLimitError, TheodoliteError
from theodolite.models.layers import Layer
from theodolite.models.text_anatomy import Anatomy
from theodolite.state import checkpoints
from theodolite.surveys import text_survey as text_surveys
from theodolite.surveys.api import survey as whole_survey
from theodolite.surveys.folder import TABLES, open_survey
from theodolite.surveys.memory import Estimate, check_memory, estimate_bytes
from theodolite.surveys.merge import merge
from theodolite.surveys.survey import Survey

pytestmark = pytest.mark.usefixtures("one_thread")
KINDS = ("id", "surface", "word")
DOCUMENTS = [*sentences(30, seed=17), "Rethinking unthinkable things, rethinking 3.14!", "naïve Thinking"]
SETTINGS: dict[str, Any] = {"batch_tokens": 256, "sample_size": 128, "layers": "0,2"}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_surveys, "SHARD_CHARS", 1500)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(root: Path) -> None:
        (root / "corpus.txt").write_text("\n".join(DOCUMENTS), encoding="utf-8")

    return shared_folder(tmp_path_factory, "several-units-corpus", make) / "corpus.txt"


@pytest.fixture(scope="module")
def survey(small_model: Any, corpus: Path) -> Callable[..., Survey]:
    """Make a survey; those in memory are made once."""
    made: dict[str, Survey] = {}

    def make(units: Any, family: str = "bert", **options: Any) -> Survey:
        key = repr((units, family, sorted(options.items())))
        if key not in made or "out" in options:
            made[key] = whole_survey(small_model(family), corpus, units=units, **(SETTINGS | options))
        return made[key]

    return make


def assert_same_numbers(one: Survey, other: Survey) -> None:
    """Compare all tables, all sums, the pilots and what identifies the surveys, bit for bit."""
    for name in TABLES:
        pd.testing.assert_frame_equal(getattr(one.tables, name), getattr(other.tables, name), check_exact=True)
    for index, fold in one.state.folds.items():
        mine, theirs = fold.state(), other.state.folds[index].state()
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert one.pilot.sha256 == other.pilot.sha256
    assert {i: layer.frequent for i, layer in one.pilot.layers.items()} == {
        i: layer.frequent for i, layer in other.pilot.layers.items()
    }
    assert one.state.shards == other.state.shards
    assert one.facts["pilot"] == other.facts["pilot"]
    for name in ("units", "identity", "settings", "counts", "layers", "formulas"):
        assert one.facts[name] == other.facts[name], name


@pytest.mark.parametrize(("family", "kinds"), [("bert", KINDS), slow("gpt2", ("word", "surface"))], ids=str)
def test_each_kind_equals_the_survey_by_that_kind_alone(
    survey: Callable[..., Survey], family: str, kinds: tuple[str, ...]
) -> None:
    together = survey(kinds, family, contextuality=True)
    assert together.facts["other_units"] == list(kinds[1:])
    rows = set()
    for kind in kinds:
        alone = survey(kind, family, contextuality=True)
        assert_same_numbers(together.by(kind), alone)
        assert "other_units" not in alone.facts
        rows.add((int(alone.layers["n"].max()), len(alone.units)))
    assert len(rows) == len(kinds)  # the kinds differ, or the test would pass for any of them


def test_one_forward_pass_per_batch(survey: Callable[..., Survey], monkeypatch: pytest.MonkeyPatch) -> None:
    passes, hook = 0, Anatomy.hook_layers

    def count(self: Any, *given: Any) -> Any:
        nonlocal passes
        passes += 1
        return hook(self, *given)

    monkeypatch.setattr(Anatomy, "hook_layers", count)
    survey("id")
    alone, passes = passes, 0
    survey(KINDS)
    assert passes == alone > 2


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [slow(("id", "surface")), ("id", "word")], ids=",".join)
def test_sums_on_a_device(
    small_model: Any, corpus: Path, kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_surveys, "_resident", lambda device: True)  # the CPU as a device, without kernels
    model = small_model("bert")
    together = whole_survey(model, corpus, units=kinds, device="cpu", **SETTINGS)
    for kind in kinds:
        assert_same_numbers(together.by(kind), whole_survey(model, corpus, units=kind, device="cpu", **SETTINGS))


@pytest.mark.slow
def test_encoder_decoders(tmp_path: Path) -> None:
    model, kinds = saved("T5", tmp_path / "T5"), ("surface", "word")
    together = whole_survey(model, DOCUMENTS[:20], units=kinds, **SETTINGS)
    for kind in kinds:
        assert_same_numbers(together.by(kind), whole_survey(model, DOCUMENTS[:20], units=kind, **SETTINGS))


@pytest.mark.slow
def test_folders_are_surveys_of_their_own(survey: Callable[..., Survey], tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = survey(list(KINDS), out=out)
    assert sorted(path.name for path in (out / "units").iterdir()) == ["surface", "word"]
    alone = {kind: survey(kind, out=tmp_path / kind) for kind in KINDS}
    files = {path.name for path in (tmp_path / "id").iterdir()}
    assert {path.name for path in out.iterdir()} == files | {"units"}
    for kind, folder in {"id": out, "surface": out / "units" / "surface", "word": out / "units" / "word"}.items():
        opened = open_survey(folder)
        assert_same_numbers(opened, alone[kind])
        assert made.by(kind).folder == folder
        assert {path.name for path in folder.iterdir()} - {"units"} == files
        for name in ("state.safetensors", "sample.safetensors", "pilot.safetensors", "layers.parquet"):
            assert (folder / name).read_bytes() == (tmp_path / kind / name).read_bytes(), name
    opened = open_survey(out)
    assert opened.others == {}  # read when asked for
    assert_same_numbers(opened.by("word"), alone["word"])
    assert opened.by("id") is opened
    with pytest.raises(InputError, match="no units 'token', only id, surface, word"):
        opened.by("token")


def test_saved_from_memory_and_saved_again(survey: Callable[..., Survey], tmp_path: Path) -> None:
    made = survey(("id", "word"))
    made.save(tmp_path / "one")
    open_survey(tmp_path / "one").save(tmp_path / "two")
    assert_same_numbers(open_survey(tmp_path / "two" / "units" / "word"), made.by("word"))
    assert_same_numbers(open_survey(tmp_path / "two"), made)


class StopsAfter(Listener):
    def __init__(self, steps: int) -> None:
        self.steps = steps

    def stop(self) -> bool:
        self.steps -= 1
        return self.steps < 0


@pytest.mark.slow
def test_interrupted_within_a_shard_and_resumed(
    survey: Callable[..., Survey], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))
    out = tmp_path / "out"
    for steps in (4, 3):
        with pytest.raises(TheodoliteError, match="Interrupted"):
            survey(KINDS, "gpt2", out=out, resume=True, checkpoint_every=0.0, listener=StopsAfter(steps))
        assert not (out / "survey.json").exists()
    resumed = survey(KINDS, "gpt2", out=out, resume=True)
    for kind in KINDS:
        assert_same_numbers(resumed.by(kind), survey(kind, "gpt2"))
    assert not (out / "checkpoints").exists()


def test_a_run_is_resumed_with_its_own_kinds_of_units(survey: Callable[..., Survey], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(TheodoliteError, match="Interrupted"):
        survey(("id", "word"), out=out, listener=StopsAfter(3))
    with pytest.raises(InputError, match=r"--units: \['id', 'word'\] there, 'id' now"):
        survey("id", out=out, resume=True)
    with pytest.raises(InputError, match=r"--units: \['id', 'word'\] there, \['id', 'surface'\] now"):
        survey(("id", "surface"), out=out, resume=True)
    survey(("id", "word"), out=out, resume=True)
    for units in ("id", ("id", "word")):  # a finished survey has the survey by fewer kinds
        said: list[str] = []

        class Log(Listener):
            def say(self, text: str) -> None:
                said.append(text)  # noqa: B023

        survey(units, out=out, resume=True, listener=Log())
        assert any("nothing to do" in line for line in said)
    with pytest.raises(InputError, match=r"--units: \['id', 'word'\] there, 'word' now"):
        survey("word", out=out, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [slow("pilot"), "checkpoint"])
def test_damage_to_one_kind_is_noticed_and_repaired(
    survey: Callable[..., Survey], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(checkpoints, "SHARE", float("inf"))
    out, warned = tmp_path / "out", list[str]()
    with pytest.raises(TheodoliteError, match="Interrupted"):
        survey(("id", "word"), out=out, checkpoint_every=0.0, listener=StopsAfter(4))
    newest = max((out / "checkpoints").iterdir())
    place = out / "units" / "word" / "pilot.safetensors" if damage == "pilot" else newest / "units" / "word"
    file = place if damage == "pilot" else place / "state.safetensors"
    content = bytearray(file.read_bytes())
    content[-20] ^= 0xFF
    file.write_bytes(bytes(content))

    class Log(Listener):
        def warn(self, text: str) -> None:
            warned.append(text)

    resumed = survey(("id", "word"), out=out, resume=True, listener=Log())
    assert any("word" in line and "is damaged" in line for line in warned)
    assert_same_numbers(resumed.by("word"), survey("word"))
    assert_same_numbers(resumed, survey("id"))


@pytest.mark.slow
def test_parts_are_merged_by_every_kind(survey: Callable[..., Survey], tmp_path: Path) -> None:
    parts = [tmp_path / f"part{number}" for number in range(2)]
    for number, part in enumerate(parts):
        survey(KINDS, "gpt2", out=part, part=f"{number}/2")
    merged = merge(parts, out=tmp_path / "merged")
    for kind in KINDS:
        alone = merge([part if kind == "id" else part / "units" / kind for part in parts])
        assert_same_numbers(merged.by(kind), alone)
    assert_same_numbers(open_survey(tmp_path / "merged" / "units" / "word"), merged.by("word"))
    n = merged.by("word").layers["n"].tolist()
    assert n == survey("word", "gpt2").layers["n"].tolist()


@pytest.mark.slow
def test_merging_keeps_the_kinds_that_all_have(survey: Callable[..., Survey], tmp_path: Path) -> None:
    warned: list[str] = []

    class Log(Listener):
        def warn(self, text: str) -> None:
            warned.append(text)

    merged = merge([survey(KINDS, part="0/2"), survey(("id", "word"), part="1/2")], listener=Log())
    assert merged.facts["other_units"] == ["word"]
    assert list(merged.others) == ["word"]
    assert warned == ["units surface are not merged: some of the surveys do not have them"]
    only = merge([survey(("id", "word"), part="0/2"), survey("id", part="1/2")], out=tmp_path / "out")
    assert "other_units" not in only.facts
    assert not (tmp_path / "out" / "units").exists()


@pytest.mark.slow
def test_overwriting_removes_kinds_that_the_new_survey_does_not_have(
    survey: Callable[..., Survey], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    survey(KINDS, out=out)
    (out / "units" / "word" / "report.html").write_text("old")
    survey(("id", "word"), out=out, overwrite=True, max_tokens=32)
    assert sorted(path.name for path in (out / "units").iterdir()) == ["word"]
    assert not (out / "units" / "word" / "report.html").exists()
    assert open_survey(out / "units" / "word").facts["settings"]["max_tokens"] == 32
    survey("id", out=out, overwrite=True)
    assert not (out / "units").exists()
    assert not (out / ".replacement").exists()


def test_foreign_files_among_the_kinds_are_kept(survey: Callable[..., Survey], tmp_path: Path) -> None:
    out = tmp_path / "out"
    survey(("id", "word"), out=out)
    (out / "units" / "notes").mkdir()
    with pytest.raises(InputError, match=r"not part of a survey \(units/notes\)"):
        survey("id", out=out, overwrite=True)


@pytest.mark.slow
@pytest.mark.parametrize("move", [1, 9, 14, 24])
def test_killed_while_a_survey_is_replaced(small_model: Any, corpus: Path, tmp_path: Path, move: int) -> None:
    out, settings = tmp_path / "out", {"units": ("id", "word")}
    for number, (die, more) in enumerate(
        [("", {"max_tokens": 32}), (f"move {move}", {"overwrite": True}), ("", {"resume": True})]
    ):
        child = runner.start(small_model("bert"), corpus, out, die, settings | more)
        child.join()
        assert child.exitcode == (-signal.SIGKILL if number == 1 else 0)
    assert not (out / ".replacement").exists()
    for folder in (out, out / "units" / "word"):
        assert open_survey(folder).facts["settings"]["max_tokens"] != 32


def test_the_pilot_of_each_kind_is_used(survey: Callable[..., Survey], tmp_path: Path) -> None:
    first = survey(("id", "word"), out=tmp_path / "first", part="0/2")
    second = survey(("id", "word"), pilot=tmp_path / "first", part="1/2")
    for kind in ("id", "word"):
        assert second.by(kind).pilot.sha256 == first.by(kind).pilot.sha256
    assert first.pilot.sha256 != first.by("word").pilot.sha256


def test_memory_adds_up(survey: Callable[..., Survey]) -> None:
    together = survey(KINDS)
    assert together.by("word").facts["memory"]["bytes"] == survey("word").facts["memory"]["bytes"]
    layers, known = [Layer(0, "embeddings", 8)], {"sample_size": 4, "populations": 1}
    few, many = (estimate_bytes(layers, types, **known) for types in (10, 1000))

    def check(budget: int, *others: Estimate) -> Estimate:
        return check_memory(layers, 1000, lambda: 10, budget=budget, others=others, **known)

    first = check(2 * few)
    second = check(2 * few, first)
    with pytest.raises(MemoryLimitError, match=r"for 1 layer and 30 units, .* Give fewer --units"):
        check(2 * few, first, second)
    loose = check(many)
    assert loose.types == 1000  # the upper bound fits, so nothing is counted
    check(many, loose)
    assert loose.types == 10  # until the second survey needs the memory


def test_what_is_rejected(survey: Callable[..., Survey], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--units 'token' is not one of"):
        survey(["id", "token"])
    with pytest.raises(InputError, match="--units id,id: a kind of unit is given twice"):
        survey(["id", "id"])
    with pytest.raises(InputError, match="--units id,label: only units of text"):
        survey(["id", "label"])
    with pytest.raises(InputError, match="--units is empty"):
        survey([])
    with pytest.raises(InputError, match=r"--clean-words requires --units word \(got word,id\)"):
        survey(["word", "id"], clean_words=True)
    with pytest.raises(InputError, match="--engine ray surveys by one kind of unit only"):
        survey(KINDS, engine="ray", out=tmp_path / "out")
    assert_same_numbers(survey(["word"]), survey("word"))
