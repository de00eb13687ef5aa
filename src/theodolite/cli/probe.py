"""theodolite probe: can a small classifier read a word's class off its vector?"""

from __future__ import annotations

import json as encoder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import Dtype, Quiet, Revision, TrustRemoteCode

if TYPE_CHECKING:
    import pandas as pd

    from theodolite.studies.laboratory import Findings

LEGEND = (
    "[ ]: 95% over folds. control: the same probe on shuffled labels; learnt by heart: the share of shuffled "
    "labels that it fits on the words it was trained on. Test sets are balanced, so guessing gives 1/classes."
)


def probe(
    model: Annotated[str, typer.Argument(help="Catalogue name, folder, .gguf file or hub name.")],
    out: Annotated[Path, typer.Option(help="Folder for what is found.")],
    words: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Words: a .csv with the columns word and label.")
    ] = None,
    wordnet: Annotated[
        str | None,
        typer.Option(help="Classes of WordNet instead, such as noun.animal,noun.food or noun,verb,adj."),
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(metavar="LAYER", help="table (the default), or a layer such as 0, 6 or -1; several times."),
    ] = None,
    show: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD",
            help="Tell this word's confidence by class and never train on it; several times. "
            "Default: words of several classes.",
        ),
    ] = None,
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = 5,
    most: Annotated[int, typer.Option(help="Words of a class at most, drawn by seed.")] = 500,
    wrap: Annotated[
        bool, typer.Option("--wrap", help="Put BOS in front of a word where the tokenizer puts nothing.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of draws, folds, shuffled labels and probes.")] = 0,
    device: Annotated[str | None, typer.Option(help="Where the model runs: cpu, cuda. Default: cpu.")] = None,
    dtype: Dtype = "float32",
    revision: Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what the folder holds.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the scores and confidences as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train small classifiers to tell the classes of words from their vectors, with a control beside each."""
    from theodolite.cli.console import Printer, hush, result
    from theodolite.studies.laboratory import check_free
    from theodolite.studies.probe.laboratory import LABORATORY
    from theodolite.studies.probe.laboratory import probe as probed

    hush()
    check_free(out, LABORATORY, overwrite=overwrite)
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
        listener=Printer(quiet=quiet),
    )
    folder = found.save(out, overwrite=overwrite)
    if json:
        result(encoder.dumps(_as_json(found, folder)))
        return
    _print(found)
    if not quiet:
        result(LEGEND)
    result(f"probe: {folder}")


def _as_json(found: Findings, folder: Path) -> dict[str, Any]:
    from theodolite.cli.plain_json import plain_rows

    rows: dict[str, Any] = {
        name: plain_rows(found.tables[name]) for name in ("probes", "confidence") if name in found.tables
    }
    return {"probe": str(folder), "counts": found.facts["counts"], **rows}


def _print(found: Findings) -> None:
    from theodolite.cli.plain_table import print_rows

    print_rows([_score(row) for row in found.tables["probes"].to_dict("records")])
    if "confidence" not in found.tables:
        return
    print()
    groups = found.tables["confidence"].groupby(["layer_name", "word", "probe"], sort=False)
    print_rows([_sure(head, rows) for head, rows in groups])


def _score(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "vectors": row["layer_name"],
        "probe": row["probe"],
        "accuracy": f"{row['accuracy']:.3f} [{row['accuracy_low']:.3f}, {row['accuracy_high']:.3f}]",
        "control": f"{row['control']:.3f} [{row['control_low']:.3f}, {row['control_high']:.3f}]",
        "selectivity": f"{row['selectivity']:.3f}",
        "guessing": f"{row['baseline']:.3f}",
        "learnt by heart": f"{row['control_fit']:.3f}",
    }


def _sure(head: Any, rows: pd.DataFrame) -> dict[str, Any]:
    """Return a displayed word's row: its confidence by class, or why it has none."""
    name, word, probe = head
    undefined = str(rows["undefined"].iloc[0])
    values = zip(rows["label"], rows["confidence"], strict=True)
    told = {str(label): "–" if undefined else f"{value:.2f}" for label, value in values}
    return {"vectors": name, "word": f"{word} ({undefined})" if undefined else word, "probe": probe, **told}
