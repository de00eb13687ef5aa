"""The folder: what is rejected, what is replaced, and that no damage to any file goes unnoticed."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.shared import slow
from tests.small_models import sentences

from theodolite.errors import DamagedError, InputError
from theodolite.measures.formula import formula_of_column
from theodolite.surveys.api import survey as whole_survey
from theodolite.surveys.folder import FILES, open_survey, open_tables

DOCUMENTS = sentences(30, seed=41)
survey = partial(whole_survey, sample_size=64)  # neighbours of more take longer than all the rest


@pytest.fixture(scope="module")
def finished(small_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "out"
    survey(small_model("bert"), DOCUMENTS, out=out)
    return out


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "survey")
    return tmp_path / "survey"


def test_the_files_of_a_survey(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} == {*FILES, "survey.json"}


def test_an_opened_survey_equals_the_original(finished: Path, small_model: Any) -> None:
    found, again = survey(small_model("bert"), DOCUMENTS), open_survey(finished)
    for table in ("layers", "tokens", "units", "coordinates"):
        pd.testing.assert_frame_equal(getattr(found, table), getattr(again, table), check_exact=True)
    assert again.facts["identity"] == found.facts["identity"]
    assert again.facts["versions"] == found.facts["versions"]
    assert repr(again) == repr(found)


@pytest.mark.parametrize("kind", [slow("id"), slow("surface"), "word"])
def test_a_survey_saved_again_is_the_same(small_model: Any, tmp_path: Path, kind: str) -> None:
    first = survey(small_model("gpt2"), [*DOCUMENTS, "lone \udc80 surrogate"], units=kind)
    first.save(tmp_path / "one")
    open_survey(tmp_path / "one").save(tmp_path / "two")
    one, two = open_survey(tmp_path / "one"), open_survey(tmp_path / "two")
    assert one.facts["files"] == two.facts["files"]
    pd.testing.assert_frame_equal(first.tokens[["n", "q", "v"]], two.tokens[["n", "q", "v"]], check_exact=True)


def test_measured_columns_name_their_formula(finished: Path) -> None:
    fields = pq.read_schema(finished / "layers.parquet")
    ids = formula_of_column("layers")
    named = {field.name: (field.metadata or {}).get(b"formula", b"").decode() for field in fields}
    assert named["mean_cosine"] == "mean-cosine/all-pairs"
    assert {column: formula for column, formula in named.items() if formula} == {
        column: ids[column] for column in named if column in ids
    }


@pytest.mark.parametrize("name", [*FILES, "survey.json"])
@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped at the start", "flipped", "flipped at the end"])
def test_damage_is_named(copied: Path, name: str, damage: str) -> None:
    path = copied / name
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "emptied":
        data = bytearray()
    else:
        data[{"flipped at the start": 2, "flipped": len(data) // 2, "flipped at the end": -3}[damage]] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedError, match=name.replace(".", r"\.")):
        open_survey(copied)


def test_no_flipped_byte_of_the_facts_goes_unnoticed(copied: Path) -> None:
    path = copied / "survey.json"
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        data = bytearray(whole)
        data[place] ^= 2
        path.write_bytes(data)
        if json_or_none(data) == json.loads(whole):
            continue  # white space
        with pytest.raises((DamagedError, InputError), match="survey"):
            open_survey(copied)


def json_or_none(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(DamagedError, match=rf"{name} is missing"):
        open_survey(copied)


def test_tables_can_be_read_without_the_state(copied: Path) -> None:
    (copied / "state.safetensors").unlink()
    facts, tables = open_tables(copied, ["layers"])
    assert facts["schema"] == 1
    assert len(tables["layers"]) == 16  # four layers, four populations


def test_a_path_that_is_not_a_survey_is_reported(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"is not a folder\. Give the folder that `theodolite survey --out` wrote"
    ):
        open_survey(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"does not contain a survey: there is no survey.json"):
        open_survey(tmp_path / "empty")
    (copied / "survey.json").rename(copied / "unfinished.json")
    with pytest.raises(InputError, match=r"contains an unfinished survey\. Run its command again with --resume"):
        open_survey(copied)


def test_another_schema_is_rejected(copied: Path) -> None:
    facts = json.loads((copied / "survey.json").read_text())
    (copied / "survey.json").write_text(json.dumps(facts | {"schema": 99}))
    with pytest.raises(InputError, match="has schema 99; this version reads schema 1"):
        open_survey(copied)


class TestInUse:
    def test_a_survey_is_not_replaced_by_default(self, copied: Path, small_model: Any) -> None:
        with pytest.raises(
            InputError, match=r"--out .* already contains a survey\. .* use --overwrite to replace it"
        ):
            survey(small_model("bert"), DOCUMENTS, out=copied)

    def test_a_folder_in_use_is_reported_before_anything_is_loaded(self, copied: Path) -> None:
        with pytest.raises(InputError, match="already contains a survey"):
            survey("no/such/model/at/all", "no such corpus", out=copied)

    def test_overwrite_replaces_it(self, copied: Path, small_model: Any) -> None:
        (copied / "report.html").write_text("old")
        (copied / "figures").mkdir()
        survey(small_model("bert"), DOCUMENTS[:9], out=copied, overwrite=True)
        assert open_survey(copied).facts["corpus"]["documents"] == 9
        assert {path.name for path in copied.iterdir()} == {*FILES, "survey.json"}

    def test_overwrite_keeps_files_that_no_survey_wrote(self, copied: Path, small_model: Any) -> None:
        (copied / "thesis.tex").write_text("years of work")
        with pytest.raises(InputError, match=r"not part of a survey \(thesis.tex\).* Choose another folder"):
            survey(small_model("bert"), DOCUMENTS, out=copied, overwrite=True)
        assert (copied / "thesis.tex").read_text() == "years of work"
        assert open_survey(copied)

    def test_partial_files_of_a_killed_run_are_ignored(self, small_model: Any, tmp_path: Path) -> None:
        (tmp_path / ".unfinished.json.4711.part").write_text('{"mod')
        survey(small_model("bert"), DOCUMENTS, out=tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {*FILES, "survey.json"}

    def test_a_file_is_not_a_folder(self, small_model: Any, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match=r"is a file. Give the name of a folder"):
            survey(small_model("bert"), DOCUMENTS, out=tmp_path / "file")

    def test_an_unwritable_folder(self, small_model: Any, tmp_path: Path) -> None:
        if os.geteuid() == 0:
            pytest.skip("the superuser may write anywhere")
        tmp_path.chmod(0o500)
        with pytest.raises(Exception, match=r"could not be written|Permission"):
            survey(small_model("bert"), DOCUMENTS, out=tmp_path / "out")


class TestWords:
    """Errors that no model or corpus could fix are raised before anything is loaded."""

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            (
                {"units": "wrod"},
                "--units 'wrod' is not one of id, surface, word, none, position, document, label. Did you mean",
            ),
            (
                {"populations": ("all", "some")},
                "--populations: 'some' is not one of all, without-first, without-m",
            ),
            ({"populations": ("without-first",)}, "--populations must include 'all'"),
            (
                {"populations": "all,without-first"},
                r"--populations requires a list of names \(got 'all,.*'\); give \['all', 'without-first'\]",
            ),
            ({"streams": "q"}, r"--streams requires a list of names \(got 'q'\); give \['q'\]"),
            ({"by": ["en", "de"]}, "--by requires the name of a field of the corpus, .* of type list"),
            ({"dtype": "int8"}, "--dtype 'int8' is not one of auto, float32, bfloat16, float16"),
            ({"sample_size": -1}, "--sample-size -1 is too small: expected at least 0"),
            ({"batch_tokens": 0}, "--batch-tokens 0 is too small: expected at least 1"),
        ],
    )
    def test_settings(self, settings: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            survey("no/such/model/at/all", "no such corpus", **settings)

    @pytest.mark.parametrize("part", ["2/2", "x/2", "1", "-1/2", "1/0"])
    def test_parts(self, small_model: Any, part: str) -> None:
        with pytest.raises(InputError, match=f"--part '{part}': expected I/N with 0 <= I < N"):
            survey(small_model("bert"), DOCUMENTS, part=part)

    def test_an_empty_part(self, small_model: Any) -> None:
        with pytest.raises(InputError, match="--part 5/9: the corpus has only 1 shard, so this part is empty"):
            survey(small_model("bert"), DOCUMENTS, part="5/9")

    @pytest.mark.parametrize(
        ("layers", "words"),
        [
            ("0,9", "layer 9, which does not exist: this model has layers 0 to 3"),
            ("-9", "layer -9, which does not exist: this model has layers 0 to 3"),
            ("a", "requires numbers"),
            ("", "no layer"),
        ],
    )
    def test_layers(self, small_model: Any, layers: str, words: str) -> None:
        with pytest.raises(InputError, match=words):
            survey(small_model("bert"), DOCUMENTS, layers=layers)

    def test_a_pilot_of_other_weights(self, small_model: Any, finished: Path, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="--pilot was taken with other weights"):
            survey(small_model("gpt2"), DOCUMENTS, pilot=finished)
        with pytest.raises(InputError, match=r"--pilot .*: there is no pilot.safetensors in this folder"):
            survey(small_model("bert"), DOCUMENTS, pilot=tmp_path)
        survey(small_model("bert"), DOCUMENTS, layers=[1], out=tmp_path / "one")
        with pytest.raises(InputError, match=r"--pilot has no layer 0 \(embeddings\) with 32 dimensions"):
            survey(small_model("bert"), DOCUMENTS, pilot=tmp_path / "one")
