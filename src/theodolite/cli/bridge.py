"""theodolite bridge: two models, or the layers of one, over the same text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from theodolite.cli.options import CORPUS, Device, Quiet, add_flags
from theodolite.cli.study_options import MODEL_OPTIONS, Layers, Model, Overwrite, ResultsFolder
from theodolite.surveys.options import RunOptions, SurveyOptions
from theodolite.text import format_fixed

if TYPE_CHECKING:
    from theodolite.studies.laboratory import Findings

LEGEND = (
    "CKA: debiased linear CKA, 1 for rotated and scaled copies, about 0 for unrelated vectors, with its standard "
    "error over groups of documents. linear, rotation: "
    "R^2 on held-out documents of the best linear map, and of the best rotation with one scale. shared: share of "
    "the k nearest neighbours by cosine that are the same in both (and by chance). churn: share of positions "
    "whose nearest neighbour in the first is not among the k nearest in the second. recall: share of the k "
    "nearest that a mapped vector finds among the vectors of the second, by the linear map and by the rotation."
)


@add_flags(SurveyOptions, RunOptions, only=("limit", "field", "column", "max_tokens", *MODEL_OPTIONS))
def bridge(
    model: Model,
    corpus: Annotated[str, typer.Option(help=f"Text to read: {CORPUS}.")],
    out: ResultsFolder,
    other: Annotated[
        str | None,
        typer.Argument(metavar="[OTHER]", help="Second model. Default: compare the layers of the first."),
    ] = None,
    save_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the map between the last selected layers to a .safetensors file: y = (x - mean_a) @ map + "
            "mean_b.",
        ),
    ] = None,
    layers: Layers = None,
    layers_b: Annotated[str | None, typer.Option(help="Layers of the second model. Default: as --layers.")] = None,
    match: Annotated[
        str,
        typer.Option(
            help="How positions are matched: token (same tokenizer), word or sentence (by characters), document "
            "(means of its tokens), or auto: token, word or document, the first that is possible."
        ),
    ] = "auto",
    population: Annotated[
        str, typer.Option(help="Positions to include: without-sinks or all. A sink outweighs all other positions.")
    ] = "without-sinks",
    neighbours: Annotated[int, typer.Option(help="Number of nearest neighbours, k.")] = 10,
    sample_size: Annotated[
        int, typer.Option(help="Held-out positions to sample for neighbours and recall.")
    ] = 2048,
    dtype_b: Annotated[
        str | None, typer.Option(help="Precision of the second model. Default: as --dtype.")
    ] = None,
    revision_b: Annotated[str | None, typer.Option(help="Revision of the second model, from the hub.")] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory for the sums, such as 8G. If all pairs of layers need more, only those of equal depth "
            "are compared. Default: half of what is available."
        ),
    ] = None,
    keep_sums: Annotated[
        bool,
        typer.Option("--keep-sums", help="Store the sums, so that `theodolite merge` can add other documents."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run, or start it if there is none.")
    ] = False,
    device: Device = None,
    overwrite: Overwrite = False,
    json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Compare two models, or all layers of one, over the same text in one pass: CKA, maps, shared neighbours."""
    from theodolite.cli.console import Printer, print_result, silence_transformers
    from theodolite.studies.bridge.bridge import bridge as bridged

    silence_transformers()
    found = bridged(
        model,
        other,
        corpus=corpus,
        out=out,
        save_map=save_map,
        layers=layers,
        layers_b=layers_b,
        match=match,
        population=population,
        neighbours=neighbours,
        sample_size=sample_size,
        dtype_b=dtype_b,
        revision_b=revision_b,
        memory=memory,
        device=device,
        keep_sums=keep_sums,
        resume=resume,
        overwrite=overwrite,
        listener=Printer(quiet=quiet),
        **options,
    )
    finish_bridge(found, out, as_json=json, quiet=quiet)
    if not json and save_map is not None:
        print_result(f"map: {save_map}")


def finish_bridge(found: Findings, out: Path, *, as_json: bool, quiet: bool) -> None:
    """Draw the heat map into the folder, and print the results."""
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_findings
    from theodolite.exhibits.cka import save_cka
    from theodolite.studies.bridge.bridge import FIGURE

    save_cka(found.facts, found.tables["cka"], out / FIGURE)
    print_findings(
        found,
        out,
        _print,
        facts=["matched", "positions", "seconds", "warnings"],
        tables=["cka", "maps"],
        legend=LEGEND,
        as_json=as_json,
        quiet=quiet,
    )
    if not as_json:
        print_result(f"figure: {out / FIGURE}")


def _print(found: Findings) -> None:
    from theodolite.cli.console import print_result
    from theodolite.cli.output import print_rows

    facts, cka = found.facts, found.tables["cka"]
    names = [facts[key]["name"] for key in ("model", "model_b") if facts[key] is not None]
    print_result(" · ".join([*names, facts["corpus"]["name"], f"{facts['positions']['matched']:,} positions"]))
    print_result(facts["matched"])
    values = cka.set_index(["layer_a", "layer_b"])[["cka", "cka_se"]]
    rows = [_link(row, values) for row in found.tables["maps"].to_dict("records")]
    print_rows(rows if facts["model_b"] else [{k: v for k, v in row.items() if k != "most alike"} for row in rows])
    seconds = facts["seconds"]
    print_result(
        f"forward {seconds['forward']:.1f} s, sums {seconds['sums']:.1f} s: "
        f"{1 + seconds['sums'] / seconds['forward']:.2f} times the forward passes."
    )


def _link(row: dict[Any, Any], cka: Any) -> dict[str, Any]:
    alike = cka.loc[row["layer_a"], "cka"]
    value, error = cka.loc[(row["layer_a"], row["layer_b"])]
    return {
        "layer": row["layer_a_name"],
        "and": row["layer_b_name"],
        "CKA": format_fixed(value) + ("" if error != error else f" ± {format_fixed(error)}"),
        "most alike": "–" if alike.isna().all() else f"{alike.idxmax()} ({format_fixed(alike.max())})",
        "linear": format_fixed(row["linear_r2"]),
        "rotation": format_fixed(row["procrustes_r2"]),
        "shared": f"{format_fixed(row['mutual_knn'])} ({format_fixed(row['mutual_knn_chance'])})",
        "churn": format_fixed(row["churn"]),
        "recall": f"{format_fixed(row['recall_linear'])}, {format_fixed(row['recall_procrustes'])}",
        "": "; ".join(filter(None, (row["map_reason"], row["neighbour_reason"]))),
    }
