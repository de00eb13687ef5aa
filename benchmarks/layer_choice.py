"""How well label-free scores predict which layer of a text model is good for a task, layer by layer.

    python -m benchmarks.layer_choice --out build/layer-choice

Three sets of texts are read by each model: 30 articles of the Universal Declaration of Human Rights in six
languages, 240 snippets labelled by source and by sentiment, 229 openings of dialogues labelled by topic. At each
layer a text is the mean of its positions without sinks. Targets are the share of articles whose nearest article
in another language is the same one, over all ordered pairs of languages, and the share of texts whose nearest
other text, by cosine, has the same label. Scores are columns of a survey of the same texts, which sees no label.
docs/which-layer.md has the results.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import permutations
from math import factorial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

import theodolite
from benchmarks.labelled_text import LANGUAGES, read_snippets, read_topics, read_translations
from benchmarks.results import get_machine
from theodolite.studies.pooling import embed_with_reader
from theodolite.studies.sentences import SentenceReader
from theodolite.studies.text_model import load_text_model

Array = NDArray[np.float64]
MODELS = ("minilm-l6", "smollm2-135m", "antiberty")
EXPECTED = {
    "effective_rank": 1,
    "rankme": 1,
    "alpha_req": -1,
    "lidar": 1,
    "prompt_entropy": 1,
    "curvature": -1,
    "mean_cosine": -1,
    "twonn": 0,
    "depth": 1,
}
"""The sign of the correlation that the works that propose a score lead one to expect.

`depth` is the number of the layer: a score that predicts no better than it adds nothing. No sign is known for
`twonn`. alpha-ReQ is said to be best near 1: a smaller one is better above 1, which few layers here reach.
"""
POPULATION = "without-sinks"
SURVEY: dict[str, Any] = {
    "layer_scores": True,
    "populations": ("all", POPULATION),
    "sample_size": 1024,
    "text": False,
}
DRAWS, EXACT_LAYERS, RANDOM_ORDERS = 2000, 8, 20_000


class Task(NamedTuple):
    """Texts, and by target the function from vectors (texts, dim) to what each document contributes."""

    name: str
    texts: list[str]
    targets: dict[str, Any]


def make_tasks(*, quick: bool = False) -> list[Task]:
    """Return the three sets of texts with their targets."""
    translations = read_translations(LANGUAGES[: 2 if quick else None])
    articles = [text for texts in translations.values() for text in texts]
    found = partial(hit_translations, languages=len(translations))
    centred = partial(hit_translations, languages=len(translations), centre=True)
    tasks = [Task("translations", articles, {"translation": found, "translation, centred": centred})]
    sets = {"snippets": read_snippets(each=5 if quick else 30), "topics": read_topics(most=5 if quick else 40)}
    for name, labelled in sets.items():
        targets = {kind: partial(hit_neighbours, labels=np.array(of)) for kind, of in labelled.labels.items()}
        tasks.append(Task(name, list(labelled.texts), targets))
    return tasks


def cosines(x: Array, y: Array) -> Array:
    """Return the cosine of every row of x with every row of y."""
    return np.asarray(
        (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (y / np.linalg.norm(y, axis=1, keepdims=True)).T
    )


def hit_translations(x: Array, languages: int, *, centre: bool = False) -> Array:
    """Return for each article the share of ordered pairs of languages in which it finds itself. (articles,)

    With `centre`, the mean of its language is subtracted from each vector first.
    """
    parts = [part - part.mean(axis=0) * centre for part in np.split(x, languages)]
    pairs = permutations(parts, 2)
    hits = [cosines(one, other).argmax(axis=1) == np.arange(len(one)) for one, other in pairs]
    return np.asarray(np.mean(hits, axis=0))


def hit_neighbours(x: Array, labels: NDArray[Any]) -> Array:
    """Return whether the nearest other text has the same label. (texts,)"""
    similar = cosines(x, x)
    np.fill_diagonal(similar, -np.inf)
    return np.asarray(labels[similar.argmax(axis=1)] == labels, dtype=np.float64)


def spearman(scores: Array, values: Array) -> Array:
    """Return the rank correlation of the scores with each row of values; NaN if either is constant. (rows,)"""
    x, y = rankdata(scores), np.apply_along_axis(rankdata, 1, np.atleast_2d(values))
    x, y = x - x.mean(), y - y.mean(axis=1, keepdims=True)
    size = np.sqrt((x @ x) * np.square(y).sum(axis=1))
    return np.asarray(np.divide(y @ x, size, out=np.full(len(y), np.nan), where=size > 0))


def permutation_p(scores: Array, values: Array) -> float:
    """Return how often the layers in another order correlate at least as much: all orders if there are few."""
    layers, found = len(scores), abs(spearman(scores, values)[0])
    if layers <= EXACT_LAYERS:
        orders = np.array(list(permutations(range(layers))))
        assert len(orders) == factorial(layers)
        return float(np.mean(np.abs(spearman(scores, values[orders])) >= found - 1e-12))
    random = np.random.default_rng(0)
    orders = random.permuted(np.tile(np.arange(layers), (RANDOM_ORDERS, 1)), axis=1)
    return float((1 + np.sum(np.abs(spearman(scores, values[orders])) >= found - 1e-12)) / (RANDOM_ORDERS + 1))


def correlate(layers: pd.DataFrame, hits: Array) -> list[dict[str, Any]]:
    """Return one row per score: its correlation with the target over layers, and what choosing by it costs.

    hits: (layers, documents). The interval is a bootstrap over documents of the target, with the score held fixed.
    """
    target = hits.mean(axis=1)
    drawn = np.random.default_rng(0).integers(hits.shape[1], size=(DRAWS, hits.shape[1]))
    resampled = np.stack([hits[:, draw].mean(axis=1) for draw in drawn])
    rows = []
    for score, sign in EXPECTED.items():
        values = layers[score].to_numpy(np.float64)
        known = np.isfinite(values)
        row: dict[str, Any] = {"score": score, "expected": sign, "layers": int(known.sum())}
        if known.sum() > 2:
            draws = spearman(values[known], resampled[:, known])
            row |= {
                "rho": float(spearman(values[known], target[known])[0]),
                "low": float(np.nanquantile(draws, 0.025)),
                "high": float(np.nanquantile(draws, 0.975)),
                "p": permutation_p(values[known], target[known]),
            }
        if known.sum() > 2 and sign:
            chosen = np.flatnonzero(known)[np.argmax(sign * values[known])]
            row |= {"chosen": int(layers["layer"].iloc[chosen]), "lost": float(target.max() - target[chosen])}
        rows.append(row)
    return rows


def study_model(name: str, tasks: Sequence[Task]) -> dict[str, pd.DataFrame]:
    """Return the targets and scores by layer, and their correlations."""
    loaded = load_text_model(name)
    reader = SentenceReader(loaded.network, loaded.tokenizer, truncate=True)
    by_layer, correlations = [], []
    for task in tasks:
        print(f"{name}: {task.name}, {len(task.texts)} texts", flush=True)
        survey = theodolite.survey(loaded.network, task.texts, tokenizer=loaded.tokenizer, **SURVEY)
        chosen = survey.layers["population"] == POPULATION
        scores = survey.layers[chosen].copy().assign(depth=lambda table: table["layer"])
        embedded = embed_with_reader(reader, task.texts, "mean")
        for target, measure in task.targets.items():
            hits = np.stack([measure(embedded.vectors[layer].double().numpy()) for layer in scores["layer"]])
            head = {"model": name, "task": task.name, "target": target}
            table = scores[["layer", "layer_name", "n", *EXPECTED]].assign(**head, accuracy=hits.mean(axis=1))
            by_layer.append(table)
            correlations += [head | row for row in correlate(scores, hits)]
    return {"layers": pd.concat(by_layer, ignore_index=True), "correlations": pd.DataFrame(correlations)}


def draw(tables: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Draw for each model the targets by layer, and the correlations as a heat map."""
    import matplotlib
    from matplotlib.figure import Figure

    from theodolite.exhibits.drawing.style import RC, get_line_style

    models = list(dict.fromkeys(tables["layers"]["model"]))
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(7.6, 2.9 * len(models)), layout="constrained")
        axes = figure.subplots(len(models), 2, squeeze=False, width_ratios=(1, 1.15))
        for (left, right), model in zip(axes, models, strict=True):
            layers = tables["layers"].query("model == @model")
            for number, (target, rows) in enumerate(layers.groupby("target", sort=False)):
                style = get_line_style(number)
                line = {"c": style.colour, "marker": style.marker, "ls": style.dash, "ms": 3, "lw": 1.1}
                left.plot(rows["layer"], rows["accuracy"], label=target, **line)
            left.set(title=model, xlabel="layer", ylabel="share of right nearest neighbours", ylim=(0, 1))
            left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3, columnspacing=1.2)
            found = tables["correlations"].query("model == @model")
            wide = found.pivot(index="score", columns="target", values="rho")
            wide = wide.loc[list(EXPECTED), list(dict.fromkeys(found["target"]))]
            right.imshow(wide, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
            right.set_xticks(range(wide.shape[1]), [name.replace(", ", ",\n") for name in wide.columns])
            right.set_yticks(range(len(wide)), [name_score(score) for score in wide.index])
            right.set_title(f"{model}: rank correlation over layers")
            for (row, column), rho in np.ndenumerate(wide.to_numpy()):
                text = "–" if np.isnan(rho) else f"{rho:.2f}".replace("-", "−")
                right.text(column, row, text, ha="center", va="center", c="white" if abs(rho) > 0.6 else "black")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def name_score(score: str) -> str:
    """Return the score with the sign that is expected of its correlation."""
    sign = {1: " (+)", -1: " (−)", 0: ""}[EXPECTED[score]]
    return score if score == "depth" else f"{score}{sign}"


def format_markdown(correlations: pd.DataFrame) -> str:
    """Return a table for each model: rank correlation with interval, and what is lost by choosing by the score."""
    lines = []
    for model, rows in correlations.groupby("model", sort=False):
        targets = list(dict.fromkeys(rows["target"]))
        lines += [f"\n{model}\n", f"| score | {' | '.join(targets)} |", f"|---|{'---|' * len(targets)}"]
        for score in EXPECTED:
            cells = []
            for target in targets:
                row = rows[(rows["score"] == score) & (rows["target"] == target)].iloc[0]
                undefined = pd.isna(row.get("rho"))
                span = "" if undefined else f" ({row['low']:.2f} to {row['high']:.2f})"
                lost = "" if pd.isna(row.get("lost")) else f"; loses {row['lost']:.2f}"
                cells.append("–" if undefined else f"{row['rho']:.2f}{span}{lost}")
            lines.append(f"| {score} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run the study, write its tables and the figure, and print the correlations as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/layer-choice"))
    parser.add_argument("--models", nargs="+", default=list(MODELS), help="catalogue names, folders or hub names")
    parser.add_argument("--quick", action="store_true", help="few texts, only to check that everything runs")
    chosen = parser.parse_args()
    tasks = make_tasks(quick=chosen.quick)
    found = [study_model(name, tasks) for name in chosen.models]
    tables = {name: pd.concat([each[name] for each in found], ignore_index=True) for name in found[0]}
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(chosen.out / f"{name}.csv", index=False)
    facts = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": get_machine(),
        "versions": {name: version(name) for name in ("theodolite", "torch", "transformers")},
    }
    (chosen.out / "facts.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    draw(tables, chosen.out / "which-layer.png")
    print(format_markdown(tables["correlations"]))
    print(f"\nwritten to {chosen.out}")


if __name__ == "__main__":
    main()
