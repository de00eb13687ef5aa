"""Finding the checkpoints of a series: folders, a pattern with the step in it, or revisions of a hub model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from theodolite.errors import InputError

STEP_FIELD = "{step}"
GLOB = re.compile(r"[*?\[]")
SET = re.compile(r"\[!?.[^\]]*\]")
BRACKET = "[[]"  # a literal "[" in a glob
NUMBERED = re.compile(r"(\d+)=(.+)")


@dataclass(frozen=True, order=True)
class StepCheckpoint:
    """A step and its checkpoint: a folder, or a revision of a hub model."""

    step: int
    name: str
    revision: str | None = None

    @property
    def label(self) -> str:
        """The name of the checkpoint, with its revision."""
        return self.name if self.revision is None else f"{self.name} at {self.revision}"


def find_checkpoints(
    model: str,
    checkpoints: Sequence[str] = (),
    revisions: Sequence[str] = (),
    steps: Sequence[int] | None = None,
) -> list[StepCheckpoint]:
    """Return the checkpoints sorted by step, each step once.

    A checkpoint is a folder whose name ends with its step, STEP=FOLDER, a pattern with {step} in it, or a glob
    whose last number is the step. Brackets are literal if such folders exist, else a set of characters. `steps`
    selects steps of a pattern; InputError if one does not exist.
    """
    if bool(checkpoints) == bool(revisions):
        given_options = "both" if checkpoints else "neither"
        raise InputError(f"Give either --checkpoints or --revisions (got {given_options}).")
    given = [each.strip() for each in (checkpoints or revisions) if each.strip()]
    patterns = [each for each in given if STEP_FIELD in each]
    if steps is not None and not patterns:
        raise InputError(f"--steps requires a pattern with {STEP_FIELD} in it, such as checkpoint-{STEP_FIELD}.")
    found: list[StepCheckpoint] = []
    for each in given:
        if revisions:
            found += _revisions(model, each, steps)
        elif STEP_FIELD in each:
            found += _by_pattern(each, steps)
        else:
            found += _folders(each)
    return _sort_steps(found)


def missing_steps(steps: Sequence[int]) -> list[int]:
    """Return the steps that seem to be missing between the first and the last.

    Steps are expected if most differences, or most ratios, of successive steps are equal.

    >>> missing_steps([1000, 2000, 3000, 5000, 6000]), missing_steps([1, 2, 4, 16, 32, 64])
    ([4000], [8])
    >>> missing_steps([1, 5, 6, 30])
    []
    """
    apart = [after - before for before, after in pairwise(steps)]
    usual = _majority(apart)
    if usual:
        return [
            lacking
            for before, after in pairwise(steps)
            if (after - before) % usual == 0
            for lacking in range(before + usual, after, usual)
        ]
    positive = [step for step in steps if step > 0]
    times = _majority([after // before for before, after in pairwise(positive) if after % before == 0])
    if not times or times < 2:
        return []
    lacking = []
    for before, after in pairwise(positive):
        between, next_one = [], before * times
        while next_one < after:
            between.append(next_one)
            next_one *= times
        lacking += between if next_one == after else []
    return lacking


def _majority(values: Sequence[int]) -> int | None:
    """Return the value of more than half of three or more values, or None."""
    if len(values) < 3:
        return None
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None


def _by_pattern(pattern: str, steps: Sequence[int] | None) -> list[StepCheckpoint]:
    if pattern.count(STEP_FIELD) > 1:
        raise InputError(f"--checkpoints {pattern!r}: {STEP_FIELD} may appear only once.")
    if steps is not None:
        return [
            _check_exists(StepCheckpoint(step, pattern.replace(STEP_FIELD, str(step))), pattern) for step in steps
        ]
    for glob in _bracket_readings(pattern):
        shape = re.compile(r"(\d+)".join(map(_glob_to_regex, glob.split(STEP_FIELD))))
        matches = [shape.fullmatch(path) for path in _glob(glob.replace(STEP_FIELD, "*"))]
        if any(matches):
            return [StepCheckpoint(int(match[1]), match[0]) for match in matches if match]
    raise InputError(f"--checkpoints {pattern!r}: no folder matches this pattern with a number for {STEP_FIELD}.")


def _glob_to_regex(part: str) -> str:
    """Return a regular expression for a part of a glob: a star is anything within a name, a set any character."""
    fixed = (re.escape(text).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") for text in SET.split(part))
    return "[^/]".join(fixed)


def _bracket_readings(pattern: str) -> tuple[str, str]:
    """Return the glob with literal brackets, and the glob in which brackets are sets of characters.

    >>> _bracket_readings("./run[1]/step-*")
    ('run[[]1]/step-*', 'run[1]/step-*')
    """
    plain = Path(pattern).as_posix()
    return plain.replace("[", BRACKET), plain


def _folders(given: str) -> list[StepCheckpoint]:
    """Return the checkpoints of a glob, of STEP=FOLDER, or of folders separated by commas."""
    if Path(given).is_dir():
        return [StepCheckpoint(_last_number(Path(given).name, given), given)]
    if matches := _match_glob(given):
        return matches
    if "," in given:
        return [checkpoint for part in given.split(",") if part.strip() for checkpoint in _folders(part.strip())]
    numbered = NUMBERED.fullmatch(given)
    if numbered:
        return [_check_exists(StepCheckpoint(int(numbered[1]), numbered[2]), given)]
    if GLOB.search(given):
        raise InputError(f"--checkpoints {given!r}: no folder matches this pattern. Check the path.")
    return [_check_exists(StepCheckpoint(_last_number(Path(given).name, given), given), given)]


def _match_glob(given: str) -> list[StepCheckpoint]:
    """Return the checkpoints that match a glob; the step is the last number from the first wildcard part on."""
    if not GLOB.search(given):
        return []
    for glob in _bracket_readings(given):
        parts = glob.replace(BRACKET, "").split("/")
        fixed = next((place for place, part in enumerate(parts) if GLOB.search(part)), -1)
        if paths := _glob(glob):
            return [StepCheckpoint(_last_number("/".join(path.split("/")[fixed:]), path), path) for path in paths]
    return []


def _revisions(model: str, given: str, steps: Sequence[int] | None) -> list[StepCheckpoint]:
    if STEP_FIELD in given:
        if steps is None:
            raise InputError(
                f"--revisions {given!r} requires --steps, since revisions are not listed from the hub."
            )
        return [StepCheckpoint(step, model, given.replace(STEP_FIELD, str(step))) for step in steps]
    names = [each.strip() for each in given.split(",") if each.strip()]
    return [StepCheckpoint(_last_number(name, name, "--revisions"), model, name) for name in names]


def _last_number(text: str, given: str, option: str = "--checkpoints") -> int:
    """Return the step: the last number in the name of a folder, or in the part that matches a wildcard.

    >>> _last_number("checkpoint-0500", "runs-2/checkpoint-0500")
    500
    """
    numbers = re.findall(r"\d+", text)
    if not numbers:
        hint = f" Give the step too, such as 1000={given}." if option == "--checkpoints" else ""
        raise InputError(f"{option} {given}: the name has no number for the step.{hint}")
    return int(numbers[-1])


def _check_exists(checkpoint: StepCheckpoint, given: str) -> StepCheckpoint:
    if not Path(checkpoint.name).is_dir():
        raise InputError(
            f"--checkpoints {given}: step {checkpoint.step} is missing (no folder {checkpoint.name})."
        )
    return checkpoint


def _glob(pattern: str) -> list[str]:
    """Return the matching folders, with forward slashes on every system."""
    from glob import glob

    return sorted(Path(path).as_posix() for path in glob(pattern) if Path(path).is_dir())  # noqa: PTH207


def _sort_steps(found: Sequence[StepCheckpoint]) -> list[StepCheckpoint]:
    ordered = sorted(set(found))
    for one, other in pairwise(ordered):
        if one.step == other.step:
            raise InputError(f"Step {one.step} is given twice: {one.label} and {other.label}.")
    return ordered
