"""Which checkpoints make a series: folders, a pattern with the step in it, or revisions of a hub model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from theodolite.errors import InputError

PLACE = "{step}"
GLOB = re.compile(r"[*?\[]")
SET = re.compile(r"\[!?.[^\]]*\]")
BRACKET = "[[]"  # a glob's way to write "[" itself
NUMBERED = re.compile(r"(\d+)=(.+)")


@dataclass(frozen=True, order=True)
class Moment:
    """A step and the checkpoint that was saved at it: a folder, or a revision of a hub model."""

    step: int
    name: str
    revision: str | None = None

    @property
    def told(self) -> str:
        """The checkpoint's name, with its revision."""
        return self.name if self.revision is None else f"{self.name} at {self.revision}"


def moments(
    model: str,
    checkpoints: Sequence[str] = (),
    revisions: Sequence[str] = (),
    steps: Sequence[int] | None = None,
) -> list[Moment]:
    """Return the checkpoints sorted by step, each step once.

    A checkpoint is a folder whose name ends with its step, STEP=FOLDER, a pattern with {step} in it, or a glob
    whose last number is the step. Brackets stand for themselves where folders are called so, else for one of the
    characters in them. `steps` are those wanted of a pattern; one that is not there is told.
    """
    if bool(checkpoints) == bool(revisions):
        came = "both" if checkpoints else "neither"
        raise InputError(f"Wanted --checkpoints or --revisions, one of the two; {came} came.")
    given = [each.strip() for each in (checkpoints or revisions) if each.strip()]
    patterns = [each for each in given if PLACE in each]
    if steps is not None and not patterns:
        raise InputError(
            f"--steps are those wanted of a pattern, so one wants {PLACE} in it, as checkpoint-{PLACE}."
        )
    found: list[Moment] = []
    for each in given:
        if revisions:
            found += _revisions(model, each, steps)
        elif PLACE in each:
            found += _by_pattern(each, steps)
        else:
            found += _folders(each)
    return _sorted(found)


def gaps(steps: Sequence[int]) -> list[int]:
    """Return the steps that seem to be missing between the first and the last: where most steps lie equally far
    apart, or each a fixed number of times the one before, and some do not.

    >>> gaps([1000, 2000, 3000, 5000, 6000]), gaps([1, 2, 4, 16, 32, 64]), gaps([1, 5, 6, 30])
    ([4000], [8], [])
    """
    apart = [after - before for before, after in pairwise(steps)]
    usual = _most(apart)
    if usual:
        return [
            lacking
            for before, after in pairwise(steps)
            if (after - before) % usual == 0
            for lacking in range(before + usual, after, usual)
        ]
    positive = [step for step in steps if step > 0]
    times = _most([after // before for before, after in pairwise(positive) if after % before == 0])
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


def _most(values: Sequence[int]) -> int | None:
    """Return the value that more than half are, of three or more."""
    if len(values) < 3:
        return None
    value, count = Counter(values).most_common(1)[0]
    return value if 2 * count > len(values) else None


def _by_pattern(pattern: str, steps: Sequence[int] | None) -> list[Moment]:
    if pattern.count(PLACE) > 1:
        raise InputError(f"--checkpoints {pattern!r}: wanted {PLACE} in it once.")
    if steps is not None:
        return [_there(Moment(step, pattern.replace(PLACE, str(step))), pattern) for step in steps]
    for glob in _readings(pattern):
        shape = re.compile(r"(\d+)".join(map(_globbed, glob.split(PLACE))))
        matches = [shape.fullmatch(path) for path in _glob(glob.replace(PLACE, "*"))]
        if any(matches):
            return [Moment(int(match[1]), match[0]) for match in matches if match]
    raise InputError(f"--checkpoints {pattern!r}: no folder is called so, with a number for {PLACE}.")


def _globbed(part: str) -> str:
    """Return where the number may stand among paths that fit: a star is anything within a name, a set any sign."""
    fixed = (re.escape(text).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") for text in SET.split(part))
    return "[^/]".join(fixed)


def _readings(pattern: str) -> tuple[str, str]:
    """Return the glob whose brackets stand for themselves, and that in which they hold characters to choose from.

    >>> _readings("./run[1]/step-*")
    ('run[[]1]/step-*', 'run[1]/step-*')
    """
    plain = Path(pattern).as_posix()
    return plain.replace("[", BRACKET), plain


def _folders(given: str) -> list[Moment]:
    """Return the checkpoints of a glob, of STEP=FOLDER, or of folders separated by commas."""
    if Path(given).is_dir():
        return [Moment(_last_number(Path(given).name, given), given)]
    if fitting := _fitting(given):
        return fitting
    if "," in given:
        return [moment for part in given.split(",") if part.strip() for moment in _folders(part.strip())]
    numbered = NUMBERED.fullmatch(given)
    if numbered:
        return [_there(Moment(int(numbered[1]), numbered[2]), given)]
    if GLOB.search(given):
        raise InputError(f"--checkpoints {given!r}: no folder fits it.")
    return [_there(Moment(_last_number(Path(given).name, given), given), given)]


def _fitting(given: str) -> list[Moment]:
    """Return the checkpoints of a glob: the step is the last number from the first part on that it leaves open."""
    if not GLOB.search(given):
        return []
    for glob in _readings(given):
        parts = glob.replace(BRACKET, "").split("/")
        fixed = next((place for place, part in enumerate(parts) if GLOB.search(part)), -1)
        if paths := _glob(glob):
            return [Moment(_last_number("/".join(path.split("/")[fixed:]), path), path) for path in paths]
    return []


def _revisions(model: str, given: str, steps: Sequence[int] | None) -> list[Moment]:
    if PLACE in given:
        if steps is None:
            raise InputError(
                f"--revisions {given!r}: give --steps with it, since the hub is not asked for a list."
            )
        return [Moment(step, model, given.replace(PLACE, str(step))) for step in steps]
    names = [each.strip() for each in given.split(",") if each.strip()]
    return [Moment(_last_number(name, name, "--revisions"), model, name) for name in names]


def _last_number(text: str, given: str, option: str = "--checkpoints") -> int:
    """Return the last number of a folder's own name, or of what a glob leaves open: the step.

    >>> _last_number("checkpoint-0500", "runs-2/checkpoint-0500")
    500
    """
    numbers = re.findall(r"\d+", text)
    if not numbers:
        way = "; STEP=FOLDER tells it" if option == "--checkpoints" else ""
        raise InputError(f"{option} {given}: there is no number in its name that could be the step{way}.")
    return int(numbers[-1])


def _there(moment: Moment, given: str) -> Moment:
    if not Path(moment.name).is_dir():
        raise InputError(
            f"--checkpoints {given}: step {moment.step} is missing, there is no folder {moment.name}."
        )
    return moment


def _glob(pattern: str) -> list[str]:
    """Return the folders that fit, as paths are written on every system."""
    from glob import glob

    return sorted(Path(path).as_posix() for path in glob(pattern) if Path(path).is_dir())  # noqa: PTH207


def _sorted(found: Sequence[Moment]) -> list[Moment]:
    ordered = sorted(set(found))
    for one, other in pairwise(ordered):
        if one.step == other.step:
            raise InputError(f"Step {one.step} is given twice: {one.told} and {other.told}.")
    return ordered
