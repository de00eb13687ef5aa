"""segments: the segment vectors; table5: their cosines with all others."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from theodolite.exhibits.bert_spaces.weighed import SEGMENTS, WEIGHED, models, plate_of_tokens
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.norm_variance.panels import named
from theodolite.exhibits.registry import exhibit
from theodolite.exhibits.text import number
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed


@exhibit("bert-spaces/segments", title="The segment vectors", kind="table", needs=[WEIGHED, SEGMENTS], reads=())
def segments(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List norms, cosine, dot product and distance of the segment vectors."""
    data = pd.concat([named(tables_of(s, ["segments"])[0], s.model) for s in surveys], ignore_index=True)
    heads = {"one_norm": "norm", "other_norm": "other's norm", "cosine": "cosine", "dot": "dot product"}
    heads |= {"distance": "distance"}
    other = ["–" if pd.isna(value) else str(value) for value in data["other"]]
    shown = pd.DataFrame({"model": data["survey"], "segment": data["one"].astype(str), "and": other})
    shown = shown.assign(**{head: [number(float(v)) for v in data[column]] for column, head in heads.items()})
    return plate_of_tokens(data, shown, caption("The vectors added to tell segments apart.", models(surveys)))


@exhibit(
    "bert-spaces/table5",
    title="Segment vectors against the others",
    kind="table",
    needs=[WEIGHED, SEGMENTS],
    reads=(),
)
def table5(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """List statistics of the segment vectors' cosines with words and positions."""
    data = pd.concat([named(tables_of(s, ["segments_against"])[0], s.model) for s in surveys], ignore_index=True)
    shown = pd.DataFrame(
        {
            "model": data["survey"],
            "segment": data["segment"].astype(str),
            "against": data["against"],
            "n": [f"{n:,}" for n in data["n"]],
            "mean": [number(v) for v in data["mean"]],
            "s.d.": [number(v) for v in data["sd"]],
            "mean |cos|": [number(v) for v in data["mean_abs"]],
            "smallest (with)": _with(data["smallest"], data["smallest_name"]),
            "largest (with)": _with(data["largest"], data["largest_name"]),
            "beyond": [f"{n:,}" for n in data["beyond"]],
        }
    )
    above = surveys[0].facts["settings"]["above"]
    told = caption(
        "Cosines of the segment vectors with all words and positions, the smallest and the largest by name.",
        f"Beyond: how many have |cosine| > {above:g}.",
        models(surveys),
    )
    if len(surveys) == 1:
        shown = shown.drop(columns="model")
    return plate_of_tokens(data, shown, told)


def _with(values: pd.Series, names: pd.Series) -> list[str]:
    return [
        f"{number(float(value))} ({name})" if name is not None else "–"
        for value, name in zip(values, names, strict=True)
    ]
