"""Which checkpoints are meant: lists, patterns, globs and revisions, in any order."""

from __future__ import annotations

from pathlib import Path

import pytest

from theodolite.errors import InputError
from theodolite.studies.series.checkpoints import StepCheckpoint, find_checkpoints, missing_steps


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "checkpoint-20",
        "checkpoint-100",
        "checkpoint-3",
        "checkpoint-100-tmp",
        "final",
        "v2/step0040/hf",
    ):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs" / "checkpoint-9").write_text("a file, no checkpoint")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def steps(*checkpoints: str, **more) -> list[int]:
    return [moment.step for moment in find_checkpoints("tiny", checkpoints, **more)]


def test_a_pattern_matches_integers_in_numeric_order(runs: Path) -> None:
    found = find_checkpoints("tiny", ["runs/checkpoint-{step}"])
    assert [moment.step for moment in found] == [3, 20, 100]  # sorted as names it would be 100, 20, 3
    assert found[0] == StepCheckpoint(3, "runs/checkpoint-3")
    assert steps("runs/*/step{step}/hf") == [40]
    assert steps("runs/checkpoint-{step}", steps=[100, 3]) == [3, 100]


def test_a_globs_last_number_is_the_step(runs: Path) -> None:
    assert steps("runs/checkpoint-[0-9]", "runs/checkpoint-?0") == [3, 20]
    assert steps("runs/v*/*/hf") == [40]  # not 2


def test_a_number_in_a_parent_folder_is_not_the_step(runs: Path) -> None:
    (runs / "run-7" / "best").mkdir(parents=True)
    for given in ("run-7/best", "run-7/b*", "run-7/gone"):
        with pytest.raises(InputError, match="the name has no number for the step"):
            steps(given)


def test_folders_in_any_order_by_commas_or_by_name(runs: Path) -> None:
    assert steps("runs/checkpoint-100", "runs/checkpoint-3") == [3, 100]
    assert steps("runs/checkpoint-100,runs/checkpoint-3") == [3, 100]
    assert steps("500=runs/final", "runs/checkpoint-20") == [20, 500]


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        ([], {}, "got neither"),
        (["runs/checkpoint-3"], {"revisions": ["step1"]}, "got both"),
        (["runs/checkpoint-4"], {}, "step 4 is missing .no folder runs/checkpoint-4"),
        (["runs/checkpoint-{step}"], {"steps": [3, 4]}, "step 4 is missing .no folder runs/checkpoint-4"),
        (["runs/ckpt-{step}"], {}, "no folder matches this pattern with a number"),
        (["runs/ckpt-*"], {}, "no folder matches"),
        (["runs/final"], {}, "the name has no number for the step. Give the step too, such as 1000=runs/final"),
        (["runs/checkpoint-3"], {"steps": [3]}, "--steps requires a pattern with {step} in it"),
        (["runs/checkpoint-*"], {}, r"Step 100 is given twice: runs/checkpoint-100 and runs/checkpoint-100-tmp"),
        (["3=runs/final", "runs/checkpoint-3"], {}, "Step 3 is given twice"),
    ],
)
def test_invalid_input_is_rejected(runs: Path, given, more, words: str) -> None:
    with pytest.raises(InputError, match=words):
        find_checkpoints("tiny", given, **more)


def test_revisions_of_a_hub_model() -> None:
    found = find_checkpoints("org/model", revisions=["step2000,step1000"])
    assert found == [StepCheckpoint(1000, "org/model", "step1000"), StepCheckpoint(2000, "org/model", "step2000")]
    assert found[0].label == "org/model at step1000"
    assert find_checkpoints("org/model", revisions=["step{step}"], steps=[8])[0].revision == "step8"
    with pytest.raises(InputError, match="requires --steps"):
        find_checkpoints("org/model", revisions=["step{step}"])
    with pytest.raises(InputError, match="the name has no number for the step"):
        find_checkpoints("org/model", revisions=["main"])


def test_gaps_in_the_steps_are_found() -> None:
    assert missing_steps([0, 1000, 2000, 3000, 6000]) == [4000, 5000]
    assert missing_steps([0, 1, 2, 4, 8, 32, 64]) == [16]
    assert missing_steps([0, 1, 2, 4, 8, 16]) == []
    assert missing_steps([5]) == missing_steps([]) == missing_steps([1, 1000]) == []
    assert missing_steps([1000, 2000, 3000, 4500]) == []  # another distance is no gap


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("run[1]/checkpoint-{step}", [5, 60]),
        ("run[1]/checkpoint-*", [5, 60]),
        ("run[1]/checkpoint-5", [5]),
        ("run[1]/checkpoint-5,run[1]/checkpoint-60", [5, 60]),
        ("7=run[1]/best", [7]),
        ("run[[]1]/checkpoint-?", [5]),
        ("run[2]/checkpoint-{step}", [700]),  # no such folder: a set of one character
        ("run[!1s[]/checkpoint-{step}", [700]),
        ("run[23]/checkpoint-*", [700]),
        ("of[{step}]", [8]),
    ],
)
def test_brackets_are_part_of_a_folder_name_or_a_set(runs: Path, given: str, found: list[int]) -> None:
    for name in ("run[1]/checkpoint-5", "run[1]/checkpoint-60", "run[1]/best", "of[8]"):
        (runs / name).mkdir(parents=True)
    for name in ("run1/checkpoint-4", "run2/checkpoint-700"):
        (runs / name).mkdir(parents=True)
    assert steps(given) == found
    assert steps(f"{runs}/{given}" if "=" not in given and "," not in given else given) == found


def test_an_existing_folder_name_may_contain_a_bracket(runs: Path) -> None:
    (runs / "run[7]" / "best").mkdir(parents=True)
    with pytest.raises(InputError, match="the name has no number for the step"):
        steps("run[7]/b*")


def test_a_path_may_be_written_in_other_ways(runs: Path) -> None:
    assert steps("./runs//checkpoint-{step}/") == steps("./runs/checkpoint-*[0-9]/") == [3, 20, 100]
