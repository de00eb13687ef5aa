"""The sample as other viewers will read it, from the command line."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Theodolite
from tests.small_models import make, sentences
from tests.studies.sample_export.reading import read_config, read_metadata, read_tensors
from transformers import AutoTokenizer

import theodolite as package
from theodolite.measures.projection import principal_components
from theodolite.sources.text.windows import cut_windows
from theodolite.statistics.cells import POPULATIONS

HARD = [
    "",
    " ",
    "\t",
    "a\tb",
    "\n",
    '"',
    "\u202eabc",
    "007",
    "<script>",
    "日本",
    "x" * 5000,
    "None",
    "-",
]
TEXTS = [*sentences(40), "a long one " * 60]  # of several windows
COLUMNS = "text unit special n document window position layer layer_name norm x y vector".split()


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("export")
    package.survey(make("bert", place / "model"), corpus=TEXTS, out=place / "out", sample_size=400)
    return place / "out"


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels that are hard to write; one massive vector."""
    x = np.random.default_rng(0).normal(size=(5 * len(HARD), 6)).astype(np.float32)
    x[3] *= 500
    folder = tmp_path_factory.mktemp("hard") / "out"
    package.measure(x, groups=HARD * 5, out=folder)
    return folder


def kept(folder: Path, layer: int, population: str = "all") -> dict[str, np.ndarray]:
    sample = package.open(folder).state.folds[layer].sample.population(POPULATIONS[population])
    return {name: tensor.numpy() for name, tensor in sample.items()}


def test_embedding_atlas(theodolite: Theodolite, surveyed: Path, tmp_path: Path) -> None:
    out = tmp_path / "a folder" / "sample.parquet"
    ran = theodolite("export", surveyed, "--to", "embedding-atlas", "--out", out, "--layer", 2)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[0] == f"{out}: 400 vectors of 1 layer, population all"
    assert ran.out.splitlines()[1] == f"embedding-atlas '{out}' --text text --x x --y y"
    table, truth, survey = pd.read_parquet(out), kept(surveyed, 2), package.open(surveyed)
    assert table.columns.tolist() == COLUMNS
    assert str(pq.read_schema(out).field("vector").type) in ("list<item: float>", "list<element: float>")
    vectors = np.stack(table["vector"].tolist())
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, truth["vector"])
    np.testing.assert_allclose(table["norm"], np.linalg.norm(vectors.astype(np.float64), axis=1))
    np.testing.assert_allclose(
        table[["x", "y"]], principal_components(vectors.astype(np.float64), 2).points, atol=1e-9
    )
    units = survey.units.set_index("row").loc[truth["unit"]]
    assert table["unit"].tolist() == units["unit"].tolist()
    assert table["text"].tolist() == units["text"].tolist()
    assert table["special"].tolist() == units["special"].tolist()
    counts = survey.tokens.query("layer == 2 and population == 'all'").set_index("unit")["n"]
    assert table["n"].tolist() == counts.loc[table["unit"]].tolist()
    assert table["layer_name"].unique().tolist() == ["block 2"]


def test_documents_and_positions_match_the_tokens(theodolite: Theodolite, surveyed: Path, tmp_path: Path) -> None:
    theodolite("export", surveyed, "--to", "embedding-atlas", "--out", tmp_path / "x.parquet")
    table = pd.read_parquet(tmp_path / "x.parquet")
    assert table[["document", "window", "position"]].notna().all(axis=None)
    tokenizer = AutoTokenizer.from_pretrained(surveyed.parent / "model")
    windows = {
        (each.document, each.number): each.ids for each in cut_windows(list(enumerate(TEXTS)), tokenizer, 64)
    }
    assert table["window"].max() > 0
    for row in table.itertuples():
        token = windows[row.document, row.window][row.position]
        assert tokenizer.convert_ids_to_tokens(int(token)) == row.unit
    assert not table.duplicated(["document", "window", "position"]).any()


def test_several_layers_share_positions_and_do_not_jump(
    theodolite: Theodolite, surveyed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "x.parquet"
    ran = theodolite("export", surveyed, "--to", "embedding-atlas", "--out", out, "--layer", "0,3", "--limit", 50)
    assert "100 vectors of 2 layers" in ran.out
    first, last = (part for _, part in pd.read_parquet(out).groupby("layer"))
    assert first["document"].tolist() == last["document"].tolist()
    assert (first[["x", "y"]].to_numpy() * last[["x", "y"]].to_numpy()).sum() > 0
    np.testing.assert_array_equal(np.stack(last["vector"].tolist()), kept(surveyed, 3)["vector"][:50])


@pytest.mark.parametrize("method", ["tsne", "umap"])
def test_other_projections(
    theodolite: Theodolite, surveyed: Path, tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Projections are tested elsewhere; this tests that their points are written."""
    from theodolite.studies.sample_export import viewers

    if find_spec({"tsne": "sklearn", "umap": "umap"}[method]) is None:  # importing them takes seconds
        pytest.skip("the extra laboratories is not installed")
    asked = []

    def project(x: np.ndarray, method: str) -> tuple[np.ndarray, list[float]]:
        asked.append(method)
        return x[:, :2], []

    monkeypatch.setattr(viewers, "project_2d", project)
    out = tmp_path / "x.parquet"
    ran = theodolite(
        "export", surveyed, "--to", "embedding-atlas", "--out", out, "--project", method, "--limit", 9
    )
    assert ran.code == 0, ran.err
    assert asked == [method]
    np.testing.assert_allclose(pd.read_parquet(out)["x"], kept(surveyed, 3)["vector"][:9, 0])


def test_projector(theodolite: Theodolite, surveyed: Path, tmp_path: Path) -> None:
    ran = theodolite("export", surveyed, "--to", "projector", "--out", tmp_path / "tb")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[1] == f"tensorboard --logdir {tmp_path / 'tb'}"
    listed = read_config(tmp_path / "tb" / "projector_config.pbtxt")
    assert [one["tensor_name"] for one in listed] == [["00 embeddings"], *([f"0{i} block {i}"] for i in (1, 2, 3))]
    for layer, one in enumerate(listed):
        truth = kept(surveyed, layer)
        tensors = read_tensors(tmp_path / "tb" / one["tensor_path"][0])
        np.testing.assert_array_equal(tensors, truth["vector"])  # every digit of a float32
        assert one["tensor_shape"] == [str(size) for size in tensors.shape]
        rows = read_metadata(tmp_path / "tb" / one["metadata_path"][0])
        assert len(rows) == len(tensors)
        assert list(rows[0]) == "text unit special n document window position norm".split()
        norms = [row["norm"] for row in rows]
        np.testing.assert_allclose(norms, np.linalg.norm(tensors.astype(np.float64), axis=1), rtol=1e-6)


def test_one_layer_and_a_second_export_into_the_same_folder(
    theodolite: Theodolite, surveyed: Path, tmp_path: Path
) -> None:
    theodolite("export", surveyed, "--to", "projector", "--out", tmp_path)
    theodolite("export", surveyed, "--to", "projector", "--out", tmp_path, "--layer", "-1", "--limit", 7)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "layer-03.metadata.tsv",
        "layer-03.tensors.tsv",
        "projector_config.pbtxt",
    ]
    assert len(read_metadata(tmp_path / "layer-03.metadata.tsv")) == 7


def test_unusual_tokens_keep_the_rows_aligned(theodolite: Theodolite, hard: Path, tmp_path: Path) -> None:
    ran = theodolite("export", hard, "--to", "projector", "--out", tmp_path / "tb")
    assert ran.code == 0, ran.err
    rows = read_metadata(tmp_path / "tb" / "layer-00.metadata.tsv")
    tensors = read_tensors(tmp_path / "tb" / "layer-00.tensors.tsv")
    assert len(rows) == len(tensors) == 5 * len(HARD)
    for row, vector in zip(rows, tensors, strict=True):
        assert row["norm"] == pytest.approx(np.linalg.norm(vector), rel=1e-6)
        assert isinstance(row["text"], str)
    assert len({row["text"] for row in rows}) == len(HARD)
    assert theodolite("export", hard, "--to", "embedding-atlas", "--out", tmp_path / "x.parquet").code == 0
    table = pd.read_parquet(tmp_path / "x.parquet")
    want = [text.encode("utf-8", "backslashreplace").decode() for text in HARD]
    assert [want[int(row) % len(HARD)] for row in table["document"]] == table["text"].tolist()


def test_plain_vectors_have_no_text(theodolite: Theodolite, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    package.measure(x, out=tmp_path / "out")
    ran = theodolite("export", tmp_path / "out", "--to", "embedding-atlas", "--out", tmp_path / "x.parquet")
    assert ran.out.splitlines()[1] == f"embedding-atlas {tmp_path / 'x.parquet'} --x x --y y"
    table = pd.read_parquet(tmp_path / "x.parquet")
    assert table[["text", "unit", "special", "n", "position"]].isna().all(axis=None)
    np.testing.assert_array_equal(np.stack(table["vector"].tolist()), x[table["document"].astype(int)])
    theodolite("export", tmp_path / "out", "--to", "projector", "--out", tmp_path / "tb")
    rows = read_metadata(tmp_path / "tb" / "layer-00.metadata.tsv")
    assert list(rows[0]) == ["document", "norm"]
    assert [row["document"] for row in rows] == table["document"].tolist()


def test_a_single_column_has_no_name() -> None:
    from theodolite.studies.sample_export.viewers import METADATA_COLUMNS, format_metadata

    metadata = pd.DataFrame({"text": ["a", "", "\t"]}).reindex(columns=METADATA_COLUMNS)
    assert format_metadata(metadata) == 'a\n""\n"\\t"\n'
    assert format_metadata(metadata.drop(columns="text").assign(text=None)) == ""


def test_massive_vectors_are_excluded_on_request(theodolite: Theodolite, hard: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    theodolite("export", hard, "--to", "embedding-atlas", "--out", out, "--population", "without-massive")
    table = pd.read_parquet(out)
    assert len(table) == 5 * len(HARD) - 1
    assert 3 not in table["document"].tolist()


def test_in_python(surveyed: Path, tmp_path: Path) -> None:
    made = package.export(surveyed, to="projector", out=tmp_path / "tb", layer=0, limit=3)
    assert made.layers == {0: 3}
    assert made.out == tmp_path / "tb"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--to", "projectors", "--out", "x"],
            "--to 'projectors' is not one of embedding-atlas, projector, keys, mlflow,",
        ),
        (
            ["--to", "embedding-atlas", "--out", "x.csv"],
            "--out x.csv: embedding-atlas requires a file that ends in",
        ),
        (
            ["--to", "embedding-atlas", "--out", "x.parquet", "--project", "mds"],
            "--project 'mds' is not one of pca",
        ),
        (["--to", "projector", "--out", "x", "--project", "pca"], "--project requires --to embedding-atlas"),
        (["--to", "projector", "--out", "x", "--layer", "9"], "--layer 9: this survey has layers 0 to 3."),
        (["--to", "projector", "--out", "x", "--limit", "0"], "--limit requires a number of 1 or more (got 0)."),
        (["--to", "projector", "--out", "x", "--population", "alll"], "--population 'alll'"),
    ],
)
def test_bad_input(
    theodolite: Theodolite,
    surveyed: Path,
    options: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = theodolite("export", surveyed, *options)
    assert ran.code == 2
    assert words in ran.err
    assert not list(tmp_path.iterdir())


def test_folders_with_other_files_are_not_changed(theodolite: Theodolite, surveyed: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    ran = theodolite("export", surveyed, "--to", "projector", "--out", tmp_path)
    assert ran.code == 2
    assert "contains files that are not of an export (notes.txt)" in ran.err
    ran = theodolite("export", surveyed, "--to", "projector", "--out", tmp_path / "notes.txt")
    assert "is a file. Give the name of a folder" in ran.err


def test_surveys_that_cannot_be_exported_are_rejected(theodolite: Theodolite, tmp_path: Path) -> None:
    package.measure(np.eye(3), sample_size=0, out=tmp_path / "none")
    ran = theodolite("export", tmp_path / "none", "--to", "projector", "--out", tmp_path / "tb")
    assert ran.code == 2
    assert "has no sampled vectors (--sample-size 0)" in ran.err
    package.measure(np.ones((3, 1)), out=tmp_path / "narrow")
    ran = theodolite("export", tmp_path / "narrow", "--to", "projector", "--out", tmp_path / "tb")
    assert "has 1 coordinate; the projector requires 2 or more" in ran.err
    out = tmp_path / "x.parquet"
    ran = theodolite("export", tmp_path / "narrow", "--to", "embedding-atlas", "--out", out, "--project", "tsne")
    assert ran.code == 2
    assert "requires at least 4 vectors (got 3)" in ran.err
    ran = theodolite("export", tmp_path / "nowhere", "--to", "projector", "--out", tmp_path / "tb")
    assert "is not a folder" in ran.err
