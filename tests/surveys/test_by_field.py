"""--by: every group has the numbers of a survey of its documents alone; resumed, in parts, merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.listeners import RecordingListener
from tests.small_models import sentences

import theodolite
from theodolite.errors import InputError, MemoryLimitError, TheodoliteError
from theodolite.measures.columns import column_names
from theodolite.surveys import by_field, text_survey

FORWARD = 2e-5
"""Relative: a forward pass depends on what else is in its batch by 1e-6, and spectra by ten times as much."""
EXACT = 1e-9
"""Relative: float64 sums about different centres, and float32 products in the spectra of float64 vectors."""
OF_GROUP = ("layer", "layer_name", "population", "group", "documents", "undefined", "nearest", "nearest_distance")
SHARED = [name for name in column_names("groups") if name not in OF_GROUP and not name.endswith("_se")]
LANGUAGES = ("en", "fr", "de")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    texts = sentences(60, seed=3, longest=14)
    return [{"text": text, "language": LANGUAGES[at * at % 7 % 3]} for at, text in enumerate(texts)]


@pytest.fixture(scope="module")
def corpus(rows: list[dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("by") / "corpus.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture(scope="module")
def grouped(small_model: Any, corpus: Path) -> theodolite.Survey:
    folder = corpus.parent / "grouped"
    return theodolite.survey(small_model("gpt2"), corpus, by="language", out=folder, sample_size=50)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_survey, "SHARD_CHARS", 2_000)


def assert_rows(found: pd.DataFrame, expected: pd.DataFrame, tolerance: float, columns: list[str]) -> None:
    for name in columns:
        np.testing.assert_allclose(
            found[name].to_numpy(np.float64, na_value=np.nan),
            expected[name].to_numpy(np.float64, na_value=np.nan),
            rtol=tolerance,
            atol=tolerance,
            err_msg=name,
        )


def test_groups_equal_surveys_of_their_documents(
    grouped: theodolite.Survey, rows: list[dict[str, str]], small_model: Any
) -> None:
    groups = grouped.groups
    assert sorted(groups["group"].unique()) == sorted(LANGUAGES)
    for language in LANGUAGES:
        texts = [row["text"] for row in rows if row["language"] == language]
        alone = theodolite.survey(small_model("gpt2"), texts, pilot=grouped.folder, sample_size=0)
        mine = groups[groups["group"] == language]
        assert set(mine["documents"]) == {len(texts)}
        assert mine["population"].tolist() == alone.layers["population"].tolist()
        assert mine["n"].tolist() == alone.layers["n"].tolist()
        counted = ["n", "types", "dim", "zero", "nonfinite", "massive"]
        assert mine[counted].to_numpy().tolist() == alone.layers[counted].to_numpy().tolist()
        assert_rows(mine, alone.layers, FORWARD, [name for name in SHARED if not name.startswith("rogue")])


def test_groups_add_up_to_the_survey(grouped: theodolite.Survey) -> None:
    """Q is the mean over groups, and V exceeds the mean of V by the spread of the groups' means."""
    groups, layers = grouped.groups, grouped.layers
    for (layer, population), mine in groups.groupby(["layer", "population"]):
        whole = layers[(layers["layer"] == layer) & (layers["population"] == population)].iloc[0]
        n = mine["n"].to_numpy(np.float64)
        assert n.sum() == whole["n"]
        assert (n @ mine["q"].to_numpy()) / n.sum() == pytest.approx(whole["q"], rel=EXACT)
        assert (n @ mine["v"].to_numpy()) / n.sum() <= whole["v"] * (1 + EXACT)
        assert mine["norm_max"].max() == whole["norm_max"]


def test_the_survey_itself_does_not_change(grouped: theodolite.Survey, corpus: Path, small_model: Any) -> None:
    plain = theodolite.survey(small_model("gpt2"), corpus, sample_size=50)
    pd.testing.assert_frame_equal(plain.layers, grouped.layers)
    pd.testing.assert_frame_equal(plain.tokens, grouped.tokens)
    assert plain.groups.empty
    assert "by" not in plain.facts
    assert "by" not in plain.facts["settings"]


def test_differences_are_those_of_the_rows(grouped: theodolite.Survey) -> None:
    apart, groups = grouped.group_differences, grouped.groups.set_index(["layer", "population", "group"])
    assert len(apart) == 3 * len(grouped.layers)
    for row in apart.itertuples():
        first, other = (groups.loc[(row.layer, row.population, name)] for name in (row.group, row.other))
        for name in ("q", "m", "v", "mean_cosine"):
            assert getattr(row, f"{name}_difference") == pytest.approx(other[name] - first[name], abs=1e-9)
    last = apart[(apart["layer"] == apart["layer"].max()) & (apart["population"] == "all")]
    pairs = {(row.group, row.other): row.centroid_distance for row in last.itertuples()}
    for name in LANGUAGES:
        near = min((at, *pair) for pair, at in pairs.items() if name in pair)
        mine = groups.loc[(apart["layer"].max(), "all", name)]
        assert mine["nearest"] == next(other for other in near[1:] if other != name)
        assert mine["nearest_distance"] == pytest.approx(near[0])


def test_opened_again(grouped: theodolite.Survey) -> None:
    again = theodolite.load(str(grouped.folder))
    pd.testing.assert_frame_equal(again.groups, grouped.groups)
    pd.testing.assert_frame_equal(again.group_differences, grouped.group_differences)
    assert again.facts["by"] == grouped.facts["by"]


def test_a_survey_without_groups_has_no_files_of_them(small_model: Any, corpus: Path, tmp_path: Path) -> None:
    theodolite.survey(small_model("bert"), corpus, by="language", out=tmp_path / "s", sample_size=0)
    assert (tmp_path / "s" / "groups.parquet").is_file()
    theodolite.survey(small_model("bert"), corpus, out=tmp_path / "s", overwrite=True, sample_size=0)
    assert not (tmp_path / "s" / "groups.parquet").exists()
    assert not (tmp_path / "s" / "group_differences.parquet").exists()
    assert theodolite.load(tmp_path / "s").groups.empty


@pytest.mark.slow
@pytest.mark.usefixtures("small_shards", "one_thread")
def test_interrupted_and_resumed_gives_the_same_bits(small_model: Any, corpus: Path, tmp_path: Path) -> None:
    def run(out: Path, **more: Any) -> theodolite.Survey:
        return theodolite.survey(
            small_model("bert"), corpus, by="language", by_top=2, out=out, batch_tokens=256, sample_size=0, **more
        )

    whole = run(tmp_path / "whole")
    with pytest.raises(TheodoliteError, match="Interrupted"):
        run(tmp_path / "s", listener=RecordingListener(stop_at=3))
    resumed = run(tmp_path / "s", resume=True)
    pd.testing.assert_frame_equal(resumed.groups, whole.groups)
    pd.testing.assert_frame_equal(resumed.group_differences, whole.group_differences)
    with pytest.raises(InputError, match="--by: 'language' there, 'length' now"):
        theodolite.survey(
            small_model("bert"),
            corpus,
            by="length",
            by_top=2,
            out=tmp_path / "s",
            batch_tokens=256,
            sample_size=0,
            resume=True,
        )


@pytest.mark.usefixtures("small_shards")
def test_parts_merge_to_the_whole(small_model: Any, corpus: Path, tmp_path: Path) -> None:
    whole = theodolite.survey(small_model("bert"), corpus, by="language", by_top=2, sample_size=0)
    assert set(whole.groups["group"]) == {"(other)", *whole.groups["group"].unique()[:2]}
    parts = [
        theodolite.survey(
            small_model("bert"),
            corpus,
            by="language",
            by_top=2,
            part=f"{part}/2",
            out=tmp_path / str(part),
            sample_size=0,
        )
        for part in range(2)
    ]
    merged = theodolite.merge([str(part.folder) for part in parts], out=tmp_path / "merged")
    assert merged.groups["group"].tolist() == whole.groups["group"].tolist()
    assert_rows(merged.groups, whole.groups, FORWARD, [name for name in SHARED if "rogue" not in name])
    assert theodolite.load(tmp_path / "merged").groups["n"].tolist() == whole.groups["n"].tolist()


@pytest.mark.slow
def test_other_corpora_merge_by_the_names_of_groups(
    small_model: Any, rows: list[dict[str, str]], tmp_path: Path
) -> None:
    first = [row for row in rows[:30] if row["language"] != "de"]
    second = [row for row in rows[30:] if row["language"] != "en"]
    a, b = (theodolite.survey(small_model("bert"), part, by="language", sample_size=0) for part in (first, second))
    merged = theodolite.merge([a, b])
    whole = theodolite.survey(small_model("bert"), [*first, *second], by="language", sample_size=0)
    left, right = (
        each.groups.query("population == 'all'").sort_values(["layer", "group"]) for each in (merged, whole)
    )
    assert left["group"].tolist() == right["group"].tolist()
    assert left["documents"].tolist() == right["documents"].tolist()
    names = ["n", "types", "q", "m", "v", "v_within", "v_between", "mean_cosine", "effective_rank", "norm_p50"]
    assert right[names].notna().to_numpy().all()
    assert_rows(left, right, FORWARD, names)
    assert len(a.groups) == len(b.groups) == 2 * len(whole.layers)  # the surveys themselves stay as they are
    with pytest.raises(InputError, match="--by"):
        theodolite.merge(
            [a, theodolite.survey(small_model("bert"), [row["text"] for row in second], sample_size=0)]
        )


def test_several_kinds_of_units_have_the_same_groups(small_model: Any, corpus: Path) -> None:
    found = theodolite.survey(small_model("gpt2"), corpus, by="language", units=["id", "word"], sample_size=0)
    words = found.by("word")
    assert words.groups["group"].tolist() == found.groups["group"].tolist()
    assert (words.groups["n"].to_numpy() <= found.groups["n"].to_numpy()).all()
    assert words.groups["n"].sum() == words.layers["n"].sum()


def test_only_the_largest_groups_have_spectra(
    small_model: Any, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = theodolite.survey(small_model("bert"), corpus, by="language", sample_size=0)
    size = 2 * 8 * sum(layer["dim"] ** 2 for layer in whole.facts["layers"])
    monkeypatch.setattr(by_field, "MATRIX_BYTES", 2 * size)
    found = theodolite.survey(small_model("bert"), corpus, by="language", sample_size=0)
    largest = {group["name"] for group in found.facts["by"]["groups"][:2]}
    with_spectra = set(found.groups.loc[found.groups["effective_rank"].notna(), "group"])
    assert with_spectra == largest
    lacking = found.groups[~found.groups["group"].isin(largest)].iloc[0]
    assert "only the 2 largest groups have spectra" in json.loads(lacking["undefined"])["effective_rank"]
    pd.testing.assert_frame_equal(found.groups[["q", "mean_cosine"]], whole.groups[["q", "mean_cosine"]])


def test_only_the_largest_groups_have_sums_by_unit(
    small_model: Any, corpus: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = theodolite.survey(small_model("bert"), corpus, by="language", sample_size=0)
    rows = whole.groups.query("population == 'all'")
    assert rows["v_within"].notna().all()
    assert (rows["v_within"] + rows["v_between"]).to_numpy() == pytest.approx(rows["v"].to_numpy())
    row = 8 * sum(layer["dim"] + 3 for layer in whole.facts["layers"])
    types = rows.query("layer == 0").set_index("group")["types"]
    names = [group["name"] for group in whole.facts["by"]["groups"]]
    monkeypatch.setattr(by_field, "UNIT_BYTES", int(row * (types[names[0]] + types[names[1]] + 10)))
    found = theodolite.survey(small_model("bert"), corpus, by="language", sample_size=0, out=tmp_path / "s")
    assert set(found.groups.loc[found.groups["v_within"].notna(), "group"]) == set(names[:2])
    lacking = found.groups.query("group == @names[2] and population == 'all'").iloc[0]
    reasons = json.loads(lacking["undefined"])
    assert set(reasons) >= {"types", "v_within", "v_between"}
    assert reasons["v_within"].startswith("only the 2 largest groups have sums by unit")
    assert lacking[["q", "m", "v"]].notna().all()
    pd.testing.assert_frame_equal(theodolite.load(tmp_path / "s").groups, found.groups)


def test_units_without_a_vector_count_in_groups(small_model: Any, corpus: Path) -> None:
    """--min-count leaves rare units without a vector; the sums by group have a limit of their own."""
    whole, limited = (
        theodolite.survey(small_model("bert"), corpus, by="language", sample_size=0, min_count=count).groups
        for count in (1, 1000)
    )
    assert_rows(limited, whole, EXACT, ["types", "v_within", "v_between"])


def test_the_memory_estimate_includes_groups(small_model: Any, corpus: Path) -> None:
    plain = theodolite.survey(small_model("bert"), corpus, sample_size=0)
    found = theodolite.survey(small_model("bert"), corpus, by="language", sample_size=0)
    assert found.state.bytes > plain.state.bytes
    more = found.facts["memory"]["bytes"] - plain.facts["memory"]["bytes"]
    assert more >= found.state.bytes - plain.state.bytes
    with pytest.raises(MemoryLimitError, match=r"3 groups even with .*, but only .* fewer groups \(--by-top\)"):
        theodolite.survey(small_model("bert"), corpus, by="language", memory="1M")


def test_warnings_and_errors(small_model: Any, rows: list[dict[str, str]], corpus: Path, tmp_path: Path) -> None:
    recorder = RecordingListener()
    sparse = tmp_path / "sparse.jsonl"
    sparse.write_text("\n".join(json.dumps(row) for row in [{"text": "No language."}, *rows]))
    some = [{"text": row["text"]} if at % 10 == 0 else row for at, row in enumerate(rows)]
    found = theodolite.survey(small_model("bert"), some, by="language", by_top=1, sample_size=0, listener=recorder)
    assert found.groups["group"].unique()[1:].tolist() == ["(other)", "(missing)"]
    assert recorder.warned[0] == "--by language: 6 of 60 documents have no value and are the group (missing)"
    assert recorder.warned[1].startswith("--by language has 3 different values: the 1 most frequent are groups")
    with pytest.raises(InputError, match=r"--by 'langage': no document .* Did you mean 'language'"):
        theodolite.survey(small_model("bert"), corpus, by="langage")
    with pytest.raises(
        InputError, match=r"--by 'langage': .* Did you mean 'language'"
    ):  # the first record has none
        theodolite.survey(small_model("bert"), sparse, by="langage")
    with pytest.raises(InputError, match="--by-top 5 requires --by"):
        theodolite.survey(small_model("bert"), corpus, by_top=5)
    with pytest.raises(InputError, match="--by-top 0 is too small"):
        theodolite.survey(small_model("bert"), corpus, by="language", by_top=0)


VECTORS = np.random.default_rng(0).normal(size=(400, 12)) + np.linspace(0, 3, 12)
BY = [("a", "b", "b", "c")[at % 4] for at in range(400)]


def test_vectors_by_value_equal_measuring_them_alone() -> None:
    found = theodolite.measure(VECTORS, by=BY).groups
    for name in "abc":
        alone = theodolite.measure(VECTORS[np.array(BY) == name]).layers
        mine = found[(found["group"] == name) & (found["population"] == "all")]
        assert_rows(mine, alone[alone["population"] == "all"], EXACT, SHARED)
        assert set(json.loads(mine["undefined"].iloc[0])) == {"types", "v_within", "v_between"}


def test_vectors_with_units_by_value_equal_measuring_them_alone() -> None:
    units = np.array([f"u{at * at % 11}" for at in range(400)])
    found = theodolite.measure(VECTORS, by=BY, groups=units).groups
    for name in "abc":
        mine = found[(found["group"] == name) & (found["population"] == "all")].iloc[0]
        x, of = VECTORS[np.array(BY) == name], units[np.array(BY) == name]
        within = sum(np.square(x[of == one] - x[of == one].mean(0)).sum() for one in np.unique(of)) / len(x)
        assert mine["types"] == len(np.unique(of))
        assert mine["v_within"] == pytest.approx(within, rel=EXACT)
        assert mine["v_between"] == pytest.approx(np.square(x - x.mean(0)).sum() / len(x) - within, rel=EXACT)


def test_vectors_of_a_file_by_a_column(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"v": list(VECTORS.astype(np.float32)), "g": BY, "year": [2000 + at % 3 for at in range(400)]}
    )
    table.to_parquet(tmp_path / "v.parquet")
    found = theodolite.measure(tmp_path / "v.parquet", by="year", groups="g", out=tmp_path / "s")
    assert found.groups["group"].unique().tolist() == ["2000", "2001", "2002"]
    assert sorted(found.units["unit"]) == ["a", "b", "c"]
    same = theodolite.measure(tmp_path / "v.parquet", by="g", groups="g").groups
    by_unit = theodolite.measure(tmp_path / "v.parquet", groups="g").tokens
    for row in same[same["population"] == "all"].itertuples():
        unit = by_unit[(by_unit["unit"] == row.group) & (by_unit["population"] == "all")].iloc[0]
        assert (row.n, row.q) == (unit["n"], pytest.approx(unit["q"], rel=EXACT))
    np.save(tmp_path / "v.npy", VECTORS)
    (tmp_path / "by.txt").write_text("\n".join(BY))
    labelled = theodolite.measure(tmp_path / "v.npy", by=str(tmp_path / "by.txt")).groups
    assert sorted(labelled["group"].unique()) == ["a", "b", "c"]
    with pytest.raises(
        InputError, match=r"--by 'yaer' is not in v.parquet, which has v, g, year. Did you mean 'year'"
    ):
        theodolite.measure(tmp_path / "v.parquet", by="yaer")
    with pytest.raises(InputError, match="--by: all 400 values are missing"):
        theodolite.measure(VECTORS, by=[None] * 400)
    with pytest.raises(InputError, match="by has 3 labels for 400 vectors"):
        theodolite.measure(VECTORS, by=["a", "b", "c"])
