"""Sentences for captions: what was read, which units count, what became of the special ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from theodolite.exhibits.text import plain
from theodolite.studies.choice import MANY_DOCUMENTS, Choice
from theodolite.studies.norm_variance.points import special_units
from theodolite.studies.norm_variance.profile import by_documents
from theodolite.studies.surveyed import Surveyed

POPULATIONS = {
    "all": "all positions",
    "without-first": "positions other than a window's first",
    "without-massive": "positions of no massive norm",
}
UNITS = {"id": "vocabulary ids", "surface": "surface forms", "word": "words"}
RANGE = "1 ≤ log₁₀ n ≤ 5".replace(" ", "\N{NO-BREAK SPACE}")


def caption(*sentences: str) -> str:
    """Join the sentences that say something."""
    return " ".join(sentence for sentence in sentences if sentence)


def corpora(surveys: Sequence[Surveyed]) -> str:
    """Say which models read which corpora."""
    read: dict[tuple[str, int], list[str]] = {}
    for survey in surveys:
        models = read.setdefault((survey.corpus, survey.documents), [])
        if survey.model not in models:
            models.append(survey.model)
    told = [
        f"{_listed(models)} on {_name(corpus)} ({documents:,} documents)"
        if models != [corpus]
        else f"{_name(corpus)} ({documents:,} vectors)"
        for (corpus, documents), models in read.items()
    ]
    return "; ".join(told) + "."


def units(surveys: Sequence[Surveyed]) -> str:
    """Say what the units are."""
    kinds = dict.fromkeys(str(survey.facts["units"]) for survey in surveys)
    return f"Units: {', '.join(UNITS.get(kind, kind) for kind in kinds)}."


def population(choice: Choice) -> str:
    """Say which positions count."""
    return f"Population: {POPULATIONS.get(choice.population, choice.population)}."


def massive(surveys: Sequence[Surveyed], choice: Choice) -> str:
    """Say that massive positions are in the numbers, where they are."""
    told = []
    for survey in surveys:
        rows = survey.layers[survey.layers["population"] == choice.population]
        most = rows["massive"].max() if len(rows) else 0
        if most > 0:
            told.append(f"{int(most):,} in {_name(survey.model)}")
    return f"Massive positions in a layer: up to {', '.join(told)} (see --population)." if told else ""


def variant(choice: Choice) -> str:
    """Say that M and V are not the paper's, where they are not."""
    return "M and V are unbiased: M − V/(n − 1) and nV/(n − 1)." if choice.variant == "unbiased" else ""


def in_fits(surveys: Sequence[Surveyed], choice: Choice, what: str = "Fits use") -> str:
    """Say which units a fit uses, special ones too."""
    of = f"units with {RANGE}" if choice.filtered().filter == "frequent" else "all units"
    if choice.variant == "unbiased" and choice.filter == "all":
        of = "units with n > 1"
    return f"{what} {of}; {_specials(surveys, choice)}."


def errors_of_sums(surveys: Sequence[Surveyed], choice: Choice, names: Iterable[str], what: str = "Strip") -> str:
    """Say what is drawn about sums over everything, and how their errors were made; `names` are those drawn."""
    ways = {by_documents(survey, choice, name) for survey in surveys for name in names}
    made = {
        (True,): "by jackknife over groups of documents",
        (False,): "by bootstrap over units",
        (False, True): "by jackknife over groups of documents for Q, M, V and M/Q of all units, else by bootstrap "
        "over units",
    }[tuple(sorted(ways))]
    of = " of the biased numbers" if choice.variant == "unbiased" else ""
    return f"{what}: ±1.96 standard errors{of}, {made}."


def intervals() -> str:
    """Say what the intervals are."""
    return "Intervals: 95%, by bootstrap over units."


def _specials(surveys: Sequence[Surveyed], choice: Choice) -> str:
    having = [survey for survey in surveys if special_units(survey)]
    if not having:
        return "there are no special units"
    kept = [survey.model for survey in having if choice.kept(survey)]
    out = [survey.model for survey in having if not choice.kept(survey)]
    why = f" (fewer than {MANY_DOCUMENTS:,} documents)" if choice.specials == "auto" else ""
    if not out:
        return "special units are kept"
    if not kept:
        whose = "" if len(out) == len(surveys) else f" of {_listed(out)}"
        return f"special units{whose} are left out{why}"
    return f"special units of {_listed(out)} are left out{why}, those of {_listed(kept)} kept"


def _listed(names: Sequence[str]) -> str:
    unique = [_name(name) for name in dict.fromkeys(names)]
    return unique[0] if len(unique) == 1 else f"{', '.join(unique[:-1])} and {unique[-1]}"


def _name(name: str) -> str:
    return plain(name).replace(r"\$", "$")  # a caption is drawn as it stands
