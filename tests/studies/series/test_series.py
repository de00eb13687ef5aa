"""The series on disk: sorted, complete or unchanged, and without duplicates."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from theodolite.errors import DamagedError, InputError
from theodolite.studies.reading import read_survey_data
from theodolite.studies.series import Series, files
from theodolite.tables.tables import LAYERS

NAMES = ["embeddings", "block 1", "block 2", "final norm"]


def layers(seed: int = 0, names: list[str] = NAMES, populations: tuple[str, ...] = ("all", "without-first")):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        [
            {"layer": index, "layer_name": name, "population": population, "n": 10, "twonn": rng.uniform(2, 9)}
            for index, name in enumerate(names)
            for population in populations
        ]
    )


def three() -> Series:
    series = Series.of("tiny", "notes.txt", max_tokens=64)
    for step in (300, 0, 1000):
        series.append(step, f"checkpoint-{step}", f"{step:064d}", layers(step))
    return series


def test_steps_are_sorted_and_every_column_exists(tmp_path: Path) -> None:
    series = Series.read(three().write(tmp_path / "series"))
    assert [step.step for step in series.steps] == [0, 300, 1000]
    assert list(series.table.columns) == ["step", *LAYERS]
    assert series.table["step"].dtype == "int64"
    assert series.table["step"].tolist() == [0] * 8 + [300] * 8 + [1000] * 8
    assert series.table["n"].dtype == "Int64"
    assert series.table["mean_cosine"].isna().all()  # no step has it, so it is null
    expected = np.concatenate([layers(step)["twonn"] for step in (0, 300, 1000)])
    assert series.table["twonn"].tolist() == expected.tolist()


def test_exhibits_read_it_as_they_read_surveys(tmp_path: Path) -> None:
    folder = three().write(tmp_path / "series")
    found = read_survey_data(folder, ("layers",))
    assert found.facts["series"] is True
    assert (found.model, found.corpus, found.documents) == ("tiny", "notes.txt", 0)
    assert found.facts["populations"] == ["all", "without-first"]
    assert found.layer_names == dict(enumerate(NAMES))
    assert found.facts["steps"][1] == {
        "step": 300,
        "name": "checkpoint-300",
        "sha256": f"{300:064d}",
        "survey": None,
    }
    assert len(found.tables["series"]) == 24
    assert found.folder == folder


def test_steps_and_weights_are_unique() -> None:
    series = three()
    with pytest.raises(InputError, match="Step 300 is given twice"):
        series.append(300, "again", "f" * 64, layers())
    with pytest.raises(InputError, match="Steps 300 and 4000 have the same weights"):
        series.append(4000, "checkpoint-4000", f"{300:064d}", layers())
    with pytest.raises(InputError, match="must be an integer of 0 or more"):
        series.append(-1, "before", None, layers())
    series.append(4000, "not hashed", None, layers())
    series.append(5000, "not hashed either", None, layers())  # nobody knows that they are equal
    assert [step.step for step in series.steps] == [0, 300, 1000, 4000, 5000]


def test_every_step_has_the_same_rows() -> None:
    series = three()
    with pytest.raises(InputError, match=r"layer 3 \(final norm\), all, is in step 0 and not in step 2000"):
        series.append(2000, "x", None, layers(names=NAMES[:3]))
    with pytest.raises(InputError, match="without-massive, is in step 2000 and not in step 0"):
        series.append(2000, "x", None, layers(populations=("all", "without-first", "without-massive")))
    with pytest.raises(InputError, match="has no column 'population'"):
        series.append(2000, "x", None, layers().drop(columns="population"))
    with pytest.raises(InputError, match="is empty"):
        series.append(2000, "x", None, layers().head(0))
    with pytest.raises(InputError, match="twice"):
        series.append(2000, "x", None, pd.concat([layers(), layers()]))
    assert len(series.steps) == 3


def test_one_step_and_none(tmp_path: Path) -> None:
    series = Series.of({"name": "tiny", "blocks": 2}, {"name": "notes.txt", "documents": 7})
    none = Series.read(series.write(tmp_path / "none"))
    assert (none.steps, len(none.table), none.populations, none.layers) == ([], 0, [], [])
    none.append(5, "five", None, layers())
    again = Series.read(none.write(tmp_path / "none"))
    assert again.table["step"].unique().tolist() == [5]
    assert again.model == {"name": "tiny", "blocks": 2}


def test_a_run_killed_at_any_moment_leaves_a_complete_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tempting way, a table and then its checksum, would leave a table that its checksum does not fit."""
    folder = three().write(tmp_path / "series")
    moments: list[str] = []

    def dying(at: str, do):
        def died(*given, **named):
            if at in moments:
                raise KeyboardInterrupt
            return do(*given, **named)

        return died

    monkeypatch.setattr(files, "write_table", dying("table", files.write_table))
    monkeypatch.setattr(files, "write_json", dying("facts", files.write_json))
    monkeypatch.setattr(Path, "replace", dying("move", Path.replace))
    for moment, steps in (("table", 3), ("facts", 3), ("move", 3)):
        moments[:] = [moment]
        series = Series.read(folder)
        series.append(4000, "late", None, layers(4))
        with pytest.raises(KeyboardInterrupt):
            series.write(folder)
        assert len(Series.read(folder).steps) == steps
    moments.clear()
    real = files.write_json

    def facts_then_die(*given, **named):
        real(*given, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "write_json", facts_then_die)
    with pytest.raises(KeyboardInterrupt):
        series.write(folder)
    found = Series.read(folder)  # series.json names the new table, which is still beside the old one
    assert len(found.steps) == 4
    assert found.table["step"].max() == 4000


@contextmanager
def killed_at(moment: int) -> Iterator[None]:
    """End the code inside at the n-th moment: before or after a file is on disk, moved or deleted."""
    moments = count()

    def die() -> None:
        if next(moments) == moment:
            raise KeyboardInterrupt

    def dying(do):
        def did(*given, **named):
            die()
            made = do(*given, **named)
            die()
            return made

        return did

    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        for name in ("fsync", "replace", "unlink", "rmdir"):
            patch.setattr(os, name, dying(getattr(os, name)))
        yield


MOMENTS = 2 * (3 * 2 + 2 + 1)  # before and after: three files on disk and at their names, two moved, a folder gone


def moment_of(folder: Path) -> int:
    """Return the moment that is recorded in both tables of a series."""
    facts, tables = files.read(folder)
    assert {int(table["x"].iloc[0]) for table in tables.values()} == {facts["at"]}
    return int(facts["at"])


def write_moment(folder: Path, at: int) -> None:
    files.write(folder, {"at": at}, {name: pd.DataFrame({"x": [at]}) for name in ("a", "b")})


@pytest.mark.slow
@pytest.mark.parametrize("first", range(MOMENTS))
def test_two_runs_killed_one_after_the_other_lose_nothing(tmp_path: Path, first: int) -> None:
    """One kill leaves tables in two places; if the next run wrote over them, a second one would lose them."""
    for second in range(MOMENTS + 4):  # it may have two tables to move to their places first
        folder = tmp_path / str(second)
        write_moment(folder, 1)
        with killed_at(first):
            write_moment(folder, 2)
        after = moment_of(folder)
        assert after in (1, 2)
        with killed_at(second):
            write_moment(folder, 3)
        assert moment_of(folder) in (after, 3)
        write_moment(folder, 4)
        assert moment_of(folder) == 4
        assert not (folder / files.PENDING).exists()


def test_every_write_is_tested_as_a_kill_point(tmp_path: Path) -> None:
    write_moment(tmp_path, 1)
    with killed_at(MOMENTS - 1):
        write_moment(tmp_path, 2)
        pytest.fail("there are fewer moments than were tried")
    with killed_at(MOMENTS):
        write_moment(tmp_path, 3)
        assert moment_of(tmp_path) == 3
        return
    pytest.fail("there are more moments than were tried")


def test_damage_is_reported(tmp_path: Path) -> None:
    folder = three().write(tmp_path / "series")
    file = folder / "series.parquet"
    file.write_bytes(file.read_bytes()[:-3] + b"abc")
    with pytest.raises(DamagedError, match=r"series\.parquet is damaged"):
        read_survey_data(folder)
    file.unlink()
    with pytest.raises(DamagedError, match="is missing"):
        read_survey_data(folder)
    facts = json.loads((folder / "series.json").read_text())
    (folder / "series.json").write_text(json.dumps(facts | {"schema": 99}))
    with pytest.raises(InputError, match="has schema 99; this version reads schema 1"):
        read_survey_data(folder)
    with pytest.raises(InputError, match="`theodolite dynamics` creates one"):
        Series.read(tmp_path)
