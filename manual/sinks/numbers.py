"""The numbers in the text of docs/sinks.md, from the tables in docs/tables."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
import pandas as pd

from manual.reference_surveys import CHARACTERS, EXCERPTS, read_reference_table
from manual.sinks.tables import format_interval, read
from theodolite.text import format_number, format_percent, join_words

LARGE = 0.5
"""A change of SVD anisotropy that makes a layer one of those in which sinks decide it."""
LOST = 0.1
"""The share of its length that a first position loses in a block in which it is written off."""
SPEECH = "whisper-tiny-en"


def span(values: Iterable[float], digits: int = 2, *, percent: bool = False) -> str:
    """Return the smallest and the largest number, or one if they are written alike.

    >>> span([0.113, 0.0612]), span([0.5, 0.5001]), span([0.012, 0.2], percent=True)
    ('0.061 to 0.11', '0.5', '1.2% to 20%')
    """
    numbers = np.asarray(list(values), dtype=np.float64)
    write = format_percent if percent else format_number
    return " to ".join(
        dict.fromkeys(write(float(end), digits) for end in (np.nanmin(numbers), np.nanmax(numbers)))
    )


def curves(column: str, population: str, *, causal: bool = True) -> pd.DataFrame:
    """Return a column by layer and survey, of decoders or of encoders, without the final norm."""
    table = read("populations")
    chosen = (table["causal"] == causal) & (table["population"] == population)
    rows = table[chosen & (table["layer_name"] != "final norm")]
    return rows.pivot(index="layer", columns=["model", "corpus"], values=column)


@cache
def find_late() -> tuple[int, int]:
    """Return the first and the last block in which sinks decide the SVD anisotropy of decoders on all corpora."""
    change = curves("anisotropy_svd", "all") - curves("anisotropy_svd", "without-sinks")
    decided = change.index[(change > LARGE).all(axis=1)]
    return int(decided.min()), int(decided.max())


def list_numbers() -> dict[str, str]:
    """Return the text of every number by its name in text.md."""
    parts = (
        _study(), _bell(), _others(), _thresholds(), _peak(), _delimiters(), _encoders(), _speech(), _norms(),
        _writes(),
    )  # fmt: skip
    return {name: text for part in parts for name, text in part.items()}


def _study() -> dict[str, str]:
    decoders = read("populations").query("causal")
    return {
        "excerpts": str(EXCERPTS),
        "characters": f"{CHARACTERS:,}",
        "corpora": join_words(sorted({f"`{name}`" for name in decoders["corpus"]})),
    }


def _bell() -> dict[str, str]:
    """The SVD anisotropy of decoders with and without sinks."""
    first, last = find_late()
    whole, without_first, without = (
        curves("anisotropy_svd", population) for population in ("all", "without-first", "without-sinks")
    )
    shapes = read("shapes").query("causal and shape == 'bell'").set_index("population")
    growth = read("shapes").query("causal and shape == 'growth'").set_index("population")
    return {
        "late_first": str(first),
        "late_last": str(last),
        "before_late": str(first - 1),
        "bell_before": span(whole.loc[first - 1]),
        "bell_at": span(whole.loc[first], 3),
        "bell_late": span(whole.loc[first:last].to_numpy().ravel(), 3),
        "bell_without_first": join_words(
            [
                f"{format_number(float(highest), 2)} on `{corpus}`"
                for (_, corpus), highest in without_first.loc[first:last].max().items()
            ]
        ),
        "bell_without": span(without.loc[first:last].to_numpy().ravel()),
        "end_embeddings": span(without.iloc[0]),
        "end_last": span(without.iloc[-1]),
        "height": span(shapes.loc["all", "value"]),
        "height_first_widest": format_interval(
            *shapes.loc["without-first"].nlargest(1, "se")[["value", "se"]].iloc[0]
        ),
        "height_without": span(shapes.loc["without-sinks", "value"]),
        "height_without_layer": span(shapes.loc["without-sinks", "layer"], 3),
        "hump": span(without.loc[int(shapes.loc["without-sinks", "layer"].min())]),
        "growth": span(10 ** growth.loc["all", "value"], 3),
        "growth_without": span(10 ** growth.loc["without-sinks", "value"], 3),
    }


def _others() -> dict[str, str]:
    """The sinks that are not first positions: those of the late blocks, and the others."""
    first, _ = find_late()
    units = read("units")
    found = units[units["position"] > 0]
    late = found[(found["born"] <= first) & (found["last"] >= first)]
    early = found.drop(late.index)
    norms = read("norms").query("causal and sort == 'other sinks' and layer == @first").set_index("corpus")
    named = [
        f"`{row.text}` at position {row.position} of {row.n} window{'s' * (row.n > 1)} in `{row.corpus}`"
        f" (norm {'up to ' * (row.n > 1)}{format_number(float(norms.loc[row.corpus, 'norm_max']), 3)})"
        for row in late.itertuples()
    ]
    positions = np.repeat(early["position"], early["n"])
    blank = early.loc[early["text"].str.strip() == "", "n"].sum()
    return {
        "late_others": join_words(named),
        "late_others_count": str(late["n"].sum()),
        "others_count": str(found["n"].sum()),
        "others_blank": str(blank),
        "early_positions": f"{positions.min()} to {positions.max()}, half of them up to {positions.median():.0f}",
    }


def _thresholds() -> dict[str, str]:
    """The SVD anisotropy of the early and the late blocks of decoders up to several multiples of the median."""
    table = read("thresholds").query("causal")
    n = read("populations").query("population == 'all'").groupby(["model", "corpus"])["n"].max()
    early, late = table[table["layer"] == table["layer"].min()], table[table["layer"] >= find_late()[0]]

    def of(rows: pd.DataFrame, above: float) -> pd.DataFrame:
        return rows[rows["above"] == above]

    five = of(early, 5.0)
    return {
        "early_layer": str(table["layer"].min()),
        "early_all": span(of(early, np.inf)["anisotropy_svd"]),
        "early_ten": span(of(early, 10.0)["anisotropy_svd"]),
        "early_five": span(five["anisotropy_svd"]),
        "early_three": span(of(early, 3.0)["anisotropy_svd"]),
        "early_five_share": span(
            five["left_out"].to_numpy() / n[list(zip(five["model"], five["corpus"], strict=True))], percent=True
        ),
        "late_ten": span(of(late, 10.0)["anisotropy_svd"]),
        "late_three": span(of(late, 3.0)["anisotropy_svd"]),
    }


def _peak() -> dict[str, str]:
    """The numbers of decoders where leaving out sinks changes the SVD anisotropy most, and cosines everywhere."""
    table = read("populations").query("causal")
    rows = []
    for _, part in table.groupby(["model", "corpus"], sort=False):
        without = part[part["population"] == "without-sinks"].set_index("layer")
        layer = without["anisotropy_svd_difference"].abs().idxmax()
        rows.append((part.query("population == 'all' and layer == @layer").iloc[0], without.loc[layer]))
    change = table.loc[table["population"] == "without-sinks", "mean_cosine_difference"].abs()
    blocks = curves("mean_cosine", "without-sinks").iloc[1:].to_numpy().ravel()
    first, last = find_late()
    return {
        "peak_with": span([whole["anisotropy_svd"] for whole, _ in rows], 3),
        "peak_share": span([1 - part["n"] / whole["n"] for whole, part in rows], percent=True),
        "rank_with": span(whole["effective_rank"] for whole, _ in rows),
        "rank_without": span([part["effective_rank"] for _, part in rows], 3),
        "rank_late_with": span(curves("effective_rank", "all").loc[first:last].to_numpy().ravel()),
        "rank_late": span(curves("effective_rank", "without-sinks").loc[first:last].to_numpy().ravel(), 3),
        "q_ratio": span([whole["q"] / part["q"] for whole, part in rows]),
        "cosine_change": format_number(float(change.max()), 2),
        "cosine_blocks": span(np.quantile(blocks, [0.1, 0.9])),
    }


def _delimiters() -> dict[str, str]:
    table = read("populations").query("population == 'without-delimiters'")
    found = {}
    for name, causal in (("decoders", True), ("encoders", False)):
        rows = table[table["causal"] == causal]
        found[f"delimiters_{name}"] = format_number(float(rows["mean_cosine_difference"].abs().max()), 2)
    return found


def _encoders() -> dict[str, str]:
    """How much the first positions of encoders change."""
    table = read("populations").query("not causal and population == 'without-first'")
    change = (
        table[["mean_cosine_difference", "anisotropy_svd_difference", "effective_rank_difference"]].abs().max()
    )
    whole = curves("anisotropy_svd", "all", causal=False)
    growth = read("shapes").query("not causal and shape == 'growth' and population == 'all'")
    return {
        "encoder_change": format_number(float(change.iloc[:2].max()), 2),
        "encoder_rank_change": format_number(float(change.iloc[2]), 2),
        "encoder_anisotropy": span(whole.to_numpy().ravel()),
        "encoder_growth": span(10 ** growth["value"]),
    }


def _speech() -> dict[str, str]:
    """The two kinds of long positions of Whisper, from the reference table."""
    table = read_reference_table()
    of = table[table["model"] == SPEECH].set_index(["layer_name", "population"])["anisotropy_svd"]
    massive = table[(table["model"] == SPEECH) & (table["population"] == "all")].set_index("layer_name")
    last = "encoder block 4"
    blocks = [f"decoder block {number}" for number in range(1, 5)]
    return {
        "speech_massive": f"{massive.loc[last, 'massive']:,.0f} of {massive.loc[last, 'n']:,.0f}",
        "speech_all": format_number(of[last, "all"], 2),
        "speech_first": format_number(of[last, "without-first"], 2),
        "speech_sinks": format_number(of[last, "without-sinks"], 2),
        "speech_decoder": join_words([format_number(of[name, "all"], 2) for name in blocks]),
        "speech_decoder_sinks": join_words([format_number(of[name, "without-sinks"], 2) for name in blocks]),
        "speech_decoder_first": span(of[name, "without-first"] for name in blocks),
    }


def _norms() -> dict[str, str]:
    """How long sinks are where they are born, in between, and where they end."""
    table = read("norms").query("causal")
    first, last = find_late()
    early = read("thresholds")["layer"].min()
    at = table.set_index(["sort", "layer"]).sort_index()
    return {
        "early_norm": span(at.loc[("other sinks", early), "norm_p50"].dropna(), 3),
        "early_median": span(at.loc[("others", early), "norm_p50"], 2),
        "early_gone": span(at.loc[("other sinks", first - 1), "norm_p50"].dropna(), 3),
        "late_norm_before": span(at.loc[("first", first - 1), "norm_p50"], 3),
        "late_norm": span([*at.loc[("first", first), "norm_min"], *at.loc[("first", first), "norm_max"]], 3),
        "late_norm_last": span(at.loc[("first", last), "norm_p50"], 3),
        "late_norm_next": span(at.loc[("first", last + 1), "norm_p50"], 3),
        "late_norm_end": span(at.loc[("first", last + 2), "norm_p50"], 3),
        "late_median": span(at.loc[("others", first), "norm_p50"], 2),
        "massive_after_norm": str(int(table.loc[table["layer_name"] == "final norm", "massive"].sum())),
    }


def _writes() -> dict[str, str]:
    """Which parts of which blocks make first positions long and short: medians, and their range over corpora."""
    first, last = find_late()
    early = int(read("thresholds").query("causal")["layer"].min())
    table = read("writes").query("sort == 'first'").set_index(["part", "layer"]).sort_index()

    def change(part: str, layer: int) -> str:
        return span(table.loc[[(part, layer)], "change_p50"], 3)

    found = {
        f"{name}_{part}": change(part, layer)
        for name, layer in (("born", first), ("early_born", early))
        for part in ("attn", "mlp")
    }
    between = table.loc[["attn", "mlp"]].reset_index()
    between = between[(between["layer"] > first) & (between["layer"] <= last)]
    kept = (between["change_p50"] / between["norm_before"]).abs().max()
    lost = [
        layer
        for layer in table.index.unique("layer")
        if (table.loc[["mlp"]].xs(layer, level="layer").eval("change_p50 / norm_before") < -LOST).all()
    ]
    died = {layer: f"block {layer} ({change('mlp', layer)}, attention {change('attn', layer)})" for layer in lost}
    rest = read("writes").query("part == 'rest'")
    return found | {
        "kept": format_percent(float(kept), 2),
        "early_died": join_words([text for layer, text in died.items() if layer < first]),
        "died": join_words([text for layer, text in died.items() if layer > first]),
        "rest": format_number(float((rest["change_p50"].abs() / rest["norm_after"]).max()), 1),
    }
