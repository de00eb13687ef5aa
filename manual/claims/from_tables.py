"""What the reference table and the tables of the sink study say about claims; one function per claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from manual.claims.verdicts import HELD, NOT, OPEN, Finding, apart, combine, decide, write
from manual.reference_surveys import read_reference_table
from manual.sinks.tables import format_interval, read
from theodolite.measures.drift import circular_shifts, first_differences, spearman
from theodolite.text import format_number

TEXT = ("encoder", "decoder")
ANISOTROPIC = 0.2
"""Godey et al. call the layers of speech models very anisotropic from this mean cosine on."""
RESNET = "resnet-50"
NEAR, FLAT, LEVEL = 0.1, 0.1, 0.05


def surveys(
    *kinds: str, population: str | None = None, level: str = "", blocks: bool = True
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield model, corpus and layers of each survey of these kinds of models, by default of the usual population.

    The usual population is `without-sinks` for decoders and `all` otherwise, as in figures. With `blocks`, final
    norms are left out.
    """
    table = read_reference_table()
    for (model, corpus), part in table[table["kind"].isin(kinds)].groupby(["model", "corpus"], sort=False):
        chosen = population or ("without-sinks" if str(part["causal"].iloc[0]) == "True" else "all")
        rows = part[part["population"] == chosen]
        if blocks:
            rows = rows[~rows["layer_name"].str.endswith("final norm")]
        if (model in CHARACTERS) == (level == "characters") or not level:
            yield str(model), str(corpus), rows.reset_index(drop=True)


CHARACTERS = ("antiberty",)
"""Models that read one token per character (a residue, in this case)."""


def ends(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the first and the last layer."""
    return rows.iloc[0], rows.iloc[-1]


# norm-variance


def least_variation_inside() -> Iterator[Finding]:
    """Whether the C.V. of Q is lowest between a quarter and three quarters of the depth."""
    for model, corpus, rows in surveys(*TEXT):
        at = int(rows["text_q_cv"].idxmin())
        lowest, (first, last) = rows.loc[at], ends(rows)
        lower = [decide(*apart(end, lowest, "text_q_cv")) for end in (first, last)]
        inside = 0.25 <= at / (len(rows) - 1) <= 0.75
        numbers = (
            f"{write(lowest, 'text_q_cv')} of {len(rows) - 1}; ends "
            f"{format_number(first['text_q_cv'], 3)}, {format_number(last['text_q_cv'], 3)}"
        )
        yield Finding(model, corpus, numbers, combine(*lower) if inside else NOT)


def trade_off() -> Iterator[Finding]:
    """Whether V falls with M over units where the C.V. of Q is lowest."""
    for model, corpus, rows in surveys(*TEXT):
        row = rows.loc[rows["text_q_cv"].idxmin()]
        slope, error = row["text_tradeoff_slope"], row["text_tradeoff_slope_se"]
        numbers = f"slope {write(row, 'text_tradeoff_slope')}, R² {format_number(row['text_tradeoff_r2'], 3)}"
        yield Finding(model, corpus, numbers, decide(-slope, error))


def perfect_trade_off() -> Iterator[Finding]:
    """Whether the steepest slope of a Post-LN model is within NEAR of -1, and its R² within NEAR of 1."""
    for model, corpus, rows in surveys(*TEXT):
        if rows["norm_placement"].iloc[0] != "post":
            continue
        row = rows.loc[rows["text_tradeoff_r2"].idxmax()]
        slope, error = row["text_tradeoff_slope"], row["text_tradeoff_slope_se"]
        numbers = f"slope {write(row, 'text_tradeoff_slope')}, R² {format_number(row['text_tradeoff_r2'], 3)}"
        steep, flat = decide(NEAR - 1 - slope, error), decide(slope + 1 + NEAR, error)
        good = decide(row["text_tradeoff_r2"], row["text_tradeoff_r2_se"], 1 - NEAR)
        yield Finding(model, corpus, numbers, combine(steep, flat, good))


def _rises(column: str) -> Iterator[Finding]:
    """Whether a share is larger at the last block than at the embeddings, and mostly rises in between."""
    for model, corpus, rows in surveys(*TEXT):
        first, last = ends(rows)
        highest = rows.loc[rows[column].idxmax()]
        trend = spearman(rows["layer"].to_numpy(float), rows[column].to_numpy(float)).coefficient
        numbers = (
            f"{write(first, column)}, {write(last, column)}, highest {write(highest, column)}; "
            f"rank correlation with depth {format_number(trend, 2)}"
        )
        rises = decide(last[f"{column}_rise"], last[f"{column}_rise_se"])
        yield Finding(model, corpus, numbers, combine(rises, HELD if trend > 0.5 else NOT))


def mean_share_rises() -> Iterator[Finding]:
    """M/Q by depth."""
    return _rises("text_m_of_q")


def within_share_rises() -> Iterator[Finding]:
    """V_W/V by depth."""
    return _rises("text_v_within_of_v")


def _agree(x: str, y: str, sign: int) -> Iterator[Finding]:
    """Whether two columns correlate over layers with this sign, also over circular shifts of the layers."""
    for model, corpus, rows in surveys(*TEXT, blocks=False):
        a, b = (rows[name].to_numpy(float) for name in (x, y))
        found, shifts = spearman(a, b), circular_shifts(a, b)
        numbers = (
            f"ρ {format_number(found.coefficient, 2)} over {len(rows)} layers, {_p(found.p)}; "
            f"over shifts {format_number(shifts.p, 2)} (at least {format_number(shifts.floor, 2)})"
        )
        if not math.isfinite(found.coefficient):
            continue
        decided = shifts.p < LEVEL or found.p >= LEVEL
        agrees = sign * found.coefficient > 0 and found.p < LEVEL
        yield Finding(model, corpus, numbers, (HELD if agrees else NOT) if decided else OPEN)


def mean_share_and_cosine() -> Iterator[Finding]:
    """M/Q and the mean cosine."""
    return _agree("m_of_q", "mean_cosine", 1)


def within_share_and_self_similarity() -> Iterator[Finding]:
    """V_W/V and the self-similarity."""
    return _agree("text_v_within_of_v", "self_similarity", -1)


def frequency() -> Iterator[Finding]:
    """Whether M falls and V rises with log n in the middle layer, and Q by less than either."""
    for model, corpus, rows in surveys(*TEXT):
        row = rows.iloc[len(rows) // 2]
        if not math.isfinite(row["m_on_log_n"]):
            continue
        numbers = ", ".join(
            f"{name.upper()} {format_interval(row[f'{name}_on_log_n'], row[f'{name}_on_log_n_se'])}"
            for name in "qmv"
        )
        falls = decide(-row["m_on_log_n"], row["m_on_log_n_se"])
        rises = decide(row["v_on_log_n"], row["v_on_log_n_se"])
        level = HELD if abs(row["q_on_log_n"]) < min(abs(row["m_on_log_n"]), abs(row["v_on_log_n"])) else NOT
        yield Finding(model, corpus, f"{numbers} at {row['layer_name']}", combine(falls, rises, level))


def post_norm_varies_less() -> Iterator[Finding]:
    """Whether the lowest C.V. of Q of a Post-LN model is below that of every Pre-LN model on the same corpus."""
    lowest = [(model, corpus, rows.loc[rows["text_q_cv"].idxmin()]) for model, corpus, rows in surveys(*TEXT)]
    for model, corpus, row in lowest:
        others = [one for _, of, one in lowest if of == corpus and one["norm_placement"] == "pre"]
        if row["norm_placement"] != "post" or not others:
            continue
        other = min(others, key=lambda one: float(one["text_q_cv"]))
        numbers = f"{write(row, 'text_q_cv')}; `{other['model']}` {write(other, 'text_q_cv')}"
        yield Finding(model, corpus, numbers, decide(*apart(other, row, "text_q_cv")))


# anisotropy-inherent


def _some_layer(*kinds: str, level: str = "") -> Callable[[], Sequence[Finding]]:
    def find() -> Sequence[Finding]:
        found = []
        for model, corpus, rows in surveys(*kinds, population="all", level=level, blocks=False):
            row = rows.loc[rows["mean_cosine"].idxmax()]
            verdict = decide(row["mean_cosine"], row["mean_cosine_se"], ANISOTROPIC)
            found.append(Finding(model, corpus, f"highest {write(row, 'mean_cosine')}", verdict))
        return found

    return find


def every_speech_layer() -> Iterator[Finding]:
    """Whether every layer of a speech model has a mean cosine of at least ANISOTROPIC."""
    for model, corpus, rows in surveys("speech", population="all", blocks=False):
        row = rows.loc[rows["mean_cosine"].idxmin()]
        verdict = decide(row["mean_cosine"], row["mean_cosine_se"], ANISOTROPIC)
        yield Finding(model, corpus, f"lowest {write(row, 'mean_cosine')}", verdict)


def most_convolutions_isotropic() -> Iterator[Finding]:
    """Whether no layer of a convolutional net but ResNet-50 has a mean cosine of ANISOTROPIC."""
    for model, corpus, rows in surveys("convolution", population="all", blocks=False):
        row = rows.loc[rows["mean_cosine"].idxmax()]
        verdict = decide(ANISOTROPIC - row["mean_cosine"], row["mean_cosine_se"])
        if model != RESNET:
            yield Finding(model, corpus, f"highest {write(row, 'mean_cosine')}", verdict)


def resnet_anisotropic() -> list[Finding]:
    """Whether some layer of ResNet-50 has a mean cosine of ANISOTROPIC."""
    return [found for found in _some_layer("convolution")() if found.model == RESNET]


def resnet_becomes_isotropic() -> Iterator[Finding]:
    """Whether the mean cosine of ResNet-50 falls from its first layer to its last, and with depth."""
    for model, corpus, rows in surveys("convolution", population="all", blocks=False):
        if model == RESNET:
            first, last = ends(rows)
            trend = spearman(rows["layer"].to_numpy(float), rows["mean_cosine"].to_numpy(float)).coefficient
            falls = decide(-last["mean_cosine_rise"], last["mean_cosine_rise_se"])
            numbers = (
                f"{write(first, 'mean_cosine')}, {write(last, 'mean_cosine')}; "
                f"rank correlation with depth {format_number(trend, 2)}"
            )
            yield Finding(model, corpus, numbers, combine(falls, HELD if trend < -0.5 else NOT))


def _drift(*kinds: str, follows: bool, level: str = "") -> Callable[[], Sequence[Finding]]:
    """Return a test whether the mean cosine follows the norm of the mean over layers, and over their steps.

    If the claim is that it does not, it holds where the paper's test finds nothing.
    """

    def find() -> Sequence[Finding]:
        found = []
        for model, corpus, rows in surveys(*kinds, population="all", level=level):
            for stack, part in rows.groupby("stack", sort=False, dropna=False):
                x, y = np.sqrt(part["m"].to_numpy(float)), part["mean_cosine"].to_numpy(float)
                whole, steps = spearman(x, y), first_differences(x, y)
                name = f"{stack}: " if isinstance(stack, str) and stack else ""
                numbers = (
                    f"{name}ρ {format_number(whole.coefficient, 2)}, {_p(whole.p)}; "
                    f"steps ρ {format_number(steps.coefficient, 2)}, {_p(steps.p)}"
                )
                seen = whole.p < LEVEL and whole.coefficient > 0
                sure = steps.p < LEVEL and steps.coefficient > 0
                verdict = (
                    (HELD if follows else NOT) if seen and sure else OPEN if seen else NOT if follows else HELD
                )
                found.append(Finding(model, corpus, numbers, verdict))
        return found

    return find


def _p(p: float) -> str:
    """Return a p-value; that of a perfect rank correlation is 0 by Student's t."""
    return f"p {format_number(p, 2)}" if p > 0 else "p < 0.001"


# dynamics


def _bells(population: str) -> Callable[[], Sequence[Finding]]:
    """Return a test whether the SVD anisotropy of decoders is highest between a quarter and three quarters of the
    depth, and there above both ends.
    """

    def find() -> Sequence[Finding]:
        table = read("shapes")
        table = table[table["causal"] & (table["shape"] == "bell") & (table["population"] == population)]
        depth = {model: len(rows) - 1 for model, _, rows in surveys("decoder", population=population)}
        return [
            _bell(row["model"], row["corpus"], row["value"], row["se"], row["layer"], depth[row["model"]])
            for _, row in table.iterrows()
        ]

    return find


def _bell(model: str, corpus: str, height: float, error: float, peak: int, depth: int) -> Finding:
    inside = 0.25 <= peak / depth <= 0.75
    numbers = f"{format_interval(height, error)} at layer {peak} of {depth}"
    return Finding(model, corpus, numbers, decide(height, error) if inside else NOT)


def flat_encoders() -> Iterator[Finding]:
    """Whether the SVD anisotropy of an encoder differs by less than FLAT between its layers."""
    for model, corpus, rows in surveys("encoder", population="all"):
        low, high = (rows.loc[index, "anisotropy_svd"] for index in _extremes(rows["anisotropy_svd"]))
        numbers = f"{format_number(low, 3)} to {format_number(high, 3)}"
        yield Finding(model, corpus, numbers, HELD if high - low < FLAT else NOT)


def _extremes(values: pd.Series) -> tuple[int, int]:
    return int(values.idxmin()), int(values.idxmax())


token_models = _some_layer(*TEXT, level="tokens")
character_models = _some_layer(*TEXT, level="characters")
speech_models = _some_layer("speech")
vision_models = _some_layer("vision")
drift_of_text = _drift(*TEXT, follows=True, level="tokens")
drift_of_characters = _drift(*TEXT, follows=True, level="characters")
drift_of_others = _drift("speech", "vision", follows=False)
drift_of_convolutions = _drift("convolution", follows=True)
bells = _bells("all")
bells_without_first = _bells("without-first")
bells_without_sinks = _bells("without-sinks")
