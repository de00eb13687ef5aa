"""theodolite probe: train small classifiers to predict the class of a word from its vector."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Device, Dtype, Quiet, Revision, TrustRemoteCode
from theodolite.cli.study_options import Model, Overwrite, ResultsFolder

if TYPE_CHECKING:
    import pandas as pd

    from theodolite.studies.laboratory import Findings

LEGEND = (
    "[ ]: 95% interval over folds. control: accuracy of the same probe trained on shuffled labels. control fit: "
    "its accuracy on the words it was trained on. selectivity: accuracy minus control. Test sets are balanced, "
    "so the accuracy of guessing is 1 / number of classes."
)


def probe(
    model: Model,
    out: ResultsFolder,
    words: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="A .csv of words with the columns word and label.")
    ] = None,
    wordnet: Annotated[
        str | None,
        typer.Option(help="Take classes from WordNet, such as noun.animal,noun.food or noun,verb,adj."),
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LAYER",
            help="table (the embedding table), or a layer such as 0, 6 or -1; may be repeated. Default: table.",
        ),
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="Report the confidence for each class on this word, and exclude the word from training; may be "
            "repeated. Default: words that have several classes.",
        ),
    ] = None,
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 5,
    most: Annotated[int, typer.Option(help="Maximum number of words per class, sampled at random.")] = 500,
    wrap: Annotated[
        bool, typer.Option("--wrap", help="Add BOS before a word if the tokenizer adds no special token.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed for sampling, folds, shuffled labels and probes.")] = 0,
    device: Device = None,
    dtype: Dtype = "float32",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print the scores and confidences as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train small classifiers to predict the classes of words from their vectors, each with a control."""
    from theodolite.cli.console import Printer, silence_transformers
    from theodolite.cli.output import print_findings
    from theodolite.studies.probe.probe import probe as probed

    silence_transformers()
    found = probed(
        model,
        words,
        wordnet=wordnet,
        layer=layer or ["table"],
        show=show or (),
        folds=folds,
        most=most,
        wrap=wrap,
        seed=seed,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        out=out,
        overwrite=overwrite,
        listener=Printer(quiet=quiet),
    )
    print_findings(
        found,
        out,
        _print,
        facts=["counts"],
        tables=["probes", "confidence"],
        legend=LEGEND,
        as_json=json,
        quiet=quiet,
    )


def _print(found: Findings) -> None:
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows

    print_rows([_score_row(row) for row in found.tables["probes"].to_dict("records")])
    if "confidence" not in found.tables:
        return
    print_result()
    groups = found.tables["confidence"].groupby(["layer_name", "word", "probe"], sort=False)
    print_rows([_confidence_row(head, rows) for head, rows in groups])


def _score_row(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "vectors": row["layer_name"],
        "probe": row["probe"],
        "accuracy": f"{row['accuracy']:.3f} [{row['accuracy_low']:.3f}, {row['accuracy_high']:.3f}]",
        "control": f"{row['control']:.3f} [{row['control_low']:.3f}, {row['control_high']:.3f}]",
        "selectivity": f"{row['selectivity']:.3f}",
        "guessing": f"{row['baseline']:.3f}",
        "control fit": f"{row['control_fit']:.3f}",
    }


def _confidence_row(head: Any, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the row of a word given by --show: its confidence for each class, or why it has none."""
    name, word, probe = head
    undefined = str(rows["undefined"].iloc[0])
    values = zip(rows["label"], rows["confidence"], strict=True)
    confidence = {str(label): "–" if undefined else f"{value:.2f}" for label, value in values}
    return {"vectors": name, "word": f"{word} ({undefined})" if undefined else word, "probe": probe, **confidence}
