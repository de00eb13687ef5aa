"""table6: the sentence pairs used; table7: cosines between mean differences, with intervals and p."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from theodolite.exhibits.bert_spaces.difference_vectors import CONTRAST, last_layer, sources
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.model_tables import plate_of
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit, one_layer
from theodolite.exhibits.text import number
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed, labels


@exhibit("bert-spaces/table6", title="The sentence pairs used", kind="table", needs=[CONTRAST], reads=())
def table6(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List an example of each class of pairs, how many there are and in what else they differ."""
    files: dict[str, pd.DataFrame] = {}
    for survey in surveys:
        pairs = tables_of(survey, ["pairs"])[0]
        if not any(pairs.equals(other) for other in files.values()):
            files[survey.corpus if survey.corpus not in files else f"{survey.corpus} ({len(files) + 1})"] = pairs
    data = pd.concat([named(pairs, name) for name, pairs in files.items()], ignore_index=True)
    shown = pd.concat([_classes(pairs) for pairs in files.values()], ignore_index=True)
    told = caption(
        "An example of each class of pairs (.csv and .json have all), how many pairs it has, how many different "
        "words are exchanged, and in how many pairs the two sentences differ in punctuation and in their number "
        "of tokens.",
        f"{', '.join(files)}.",
    )
    return plate_of(data, shown, told)


@exhibit(
    "bert-spaces/table7",
    title="Cosines between mean differences, with intervals and p",
    kind="table",
    needs=[CONTRAST],
    options=("layers",),
    reads=(),
)
def table7(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List the cosine of every two classes' means at a layer, and how sure it is."""
    names = labels(surveys)
    tables = []
    for survey, name in zip(surveys, names, strict=True):
        cosines = tables_of(survey, ["cosines"])[0]
        wanted = choice.layers or (one_layer(choice, last_layer(survey)),)
        tables.append(named(cosines[cosines["layer"].isin(wanted)], name))
    data = pd.concat(tables, ignore_index=True)
    told = caption(
        "Cosines between the mean differences of two classes of sentence pairs, with the 95% interval over pairs; "
        "p by flipping the order within pairs, the larger of the two classes'; adjusted by Holm within a layer; "
        "the least p that so few pairs allow; 95% of cosines between classes of random pairs. sure: not 0 by "
        "interval and adjusted p, and beyond random pairs; hint: by p alone; small: not 0, but random pairs give "
        "as much; open: may be 0.",
        sources(surveys),
    )
    return plate_of(data, _printed(data, several=len(surveys) > 1, layers=data["layer"].nunique() > 1), told)


def _classes(pairs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name, members in pairs.groupby("class", sort=False):
        example = members.iloc[0]
        rows.append(
            {
                "Class": str(name),
                "Pairs": str(len(members)),
                "First sentence": str(example["a"]),
                "Second sentence": str(example["b"]),
                "Exchanges": str(members["swap"].nunique()),
                "Punctuation": str(int(members["punctuation_differs"].sum())),
                "Tokens": str(int(members["tokens_differ"].sum())),
            }
        )
    return pd.DataFrame(rows)


def _printed(data: pd.DataFrame, *, several: bool, layers: bool) -> pd.DataFrame:
    shown = pd.DataFrame()
    if several:
        shown["Model"] = data["survey"]
    if layers:
        shown["Layer"] = data["layer_name"]
    shown["Class"], shown["and"] = data["class_a"], data["class_b"]
    shown["Cosine"] = [_fixed(value) for value in data["cosine"]]
    shown["95%"] = _between(data, "low", "high")
    for column, name in (("p", "p"), ("p_holm", "adjusted"), ("smallest_p", "least p")):
        shown[name] = [number(value, 2) for value in data[column]]
    shown["random"] = _between(data, "reference_low", "reference_high")
    shown["Verdict"] = data["verdict"]
    return shown.astype(str)


def _between(data: pd.DataFrame, low: str, high: str) -> list[str]:
    return [f"[{_fixed(a)}, {_fixed(b)}]" for a, b in zip(data[low], data[high], strict=True)]


def _fixed(value: float) -> str:
    return "–" if value != value else f"{value:.3f}".replace("-", "−")
