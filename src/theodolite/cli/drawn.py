"""Pictures of what studies left: every exhibit that can be drawn from these folders alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from theodolite.errors import first_line
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.picture import picture
from theodolite.exhibits.registry import all_exhibits, make
from theodolite.naming import several
from theodolite.report.pictures import Picture
from theodolite.studies.anisotropy.batch_summary import BATCHES
from theodolite.studies.norm_variance.chosen_sets import SETS
from theodolite.studies.surveyed import Surveyed

Say = Callable[[str], None]
BESIDE = {SETS, BATCHES}
PIXELS = 100  # of the page, an inch
PAPERS = {
    "anisotropy-inherent": "Godey et al. 2023",
    "bert-spaces": "Luisto 2024",
    "dynamics": "Razzhigaev et al. 2024",
    "norm-variance": "Yamagiwa and Shimodaira",
}


def drawn(folders: Sequence[Surveyed], say: Say, warn: Say) -> list[Picture]:
    """Draw each exhibit from the folders that have what it needs; one that cannot be drawn is told.

    A laboratory's folders make its own exhibits; a survey's those that want token sets or batches beside it.
    """
    wanted = {exhibit: found for exhibit in all_exhibits().values() if (found := _able(exhibit, folders))}
    if wanted:
        say(f"drawing {several(len(wanted), 'study', 'studies')}")
    made: list[Picture] = []
    for exhibit, found in wanted.items():
        try:
            plate = make(exhibit, found)
            media_type, data = picture(plate)
        except Exception as error:  # whatever it is, the page and the other pictures are still wanted
            line = first_line(error, "")
            warn(f"{exhibit.name} was not drawn ({line or type(error).__name__}).")
            continue
        if all(data != one.data for one in made):  # a paper may have a figure twice
            words = f"{plate.caption} {_after(exhibit)}"
            made.append(Picture(exhibit.title, words, media_type, data, round(PIXELS * plate.size[0])))
    return made


def _able(exhibit: Exhibit, folders: Sequence[Surveyed]) -> list[Surveyed]:
    verb = next((need.laboratory for need in exhibit.needs if need.laboratory), "")
    beside = BESIDE & set(exhibit.reads)
    if verb:
        mine = [one for one in folders if one.facts.get("laboratory") == verb]
    else:
        mine = [one for one in folders if beside and beside <= set(one.tables) and "laboratory" not in one.facts]
    return [one for one in mine if all(need.met(one) for need in exhibit.needs)]


def _after(exhibit: Exhibit) -> str:
    return f"{exhibit.name}, after {PAPERS[exhibit.paper]}." if exhibit.paper in PAPERS else f"{exhibit.name}."
