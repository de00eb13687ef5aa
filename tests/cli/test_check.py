"""theodolite check: exit codes, the files it writes, proposed rules, stores, steps of a series, wrong input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from tests.small_models import make, sentences
from tests.synthetic_series import make_series

import theodolite as package
from theodolite.errors import InputError
from theodolite.studies.series import Series
from theodolite.testing import assert_geometry

OPTIONS = {"sample_size": 256, "populations": ["all", "without-first"]}


@pytest.fixture(scope="module")
def surveys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A baseline, fresh documents of its source, another model on its documents, and one with fewer blocks."""
    place = tmp_path_factory.mktemp("check")
    texts = sentences(360)
    models = {seed: make("bert", place / f"model{seed}", seed=seed) for seed in (0, 1)}
    package.survey(models[0], texts[:180], out=place / "base", **OPTIONS)
    package.survey(models[0], texts[180:], out=place / "fresh", **OPTIONS)
    package.survey(models[1], texts[:180], out=place / "changed", **OPTIONS)
    package.survey(models[0], texts[:180], out=place / "few", layers="0-1", **OPTIONS)
    return {name: place / name for name in ("base", "fresh", "changed", "few")}


@pytest.fixture(scope="module")
def rules(surveys: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    from theodolite.api.check import write_rules

    path = tmp_path_factory.mktemp("rules") / "rules.toml"
    write_rules(surveys["base"], path)
    return path


def test_init_writes_rules_that_the_same_source_keeps(theodolite, surveys, tmp_path):
    out = tmp_path / "rules.toml"
    ran = theodolite("check", "--init", "--baseline", surveys["base"], "--rules", out)
    assert (ran.code, ran.err) == (0, "")
    written = tomllib.loads(out.read_text("utf-8"))
    assert ran.out == f"rules: {out} ({len(written['rule'])} rules)\n"
    columns = [rule["column"] for rule in written["rule"]]
    assert {"q", "m_of_q", "mean_cosine", "effective_rank", "twonn", "positions", "documents"} <= set(columns)
    for name in ("base", "fresh"):
        ran = theodolite("check", surveys[name], "--baseline", surveys["base"], "--rules", out)
        assert (ran.code, ran.out) == (0, ""), ran.out
        assert "rules hold" in ran.err
    again = theodolite("check", "--init", "--baseline", surveys["base"], "--rules", out)
    assert again.code == 2
    assert "exists already; give --overwrite to replace it" in again.err


def test_a_change_is_one_line_per_broken_rule_and_exit_code_1(theodolite, surveys, rules, tmp_path):
    names = {name: tmp_path / f"a.{name}" for name in ("json", "xml", "html")}
    ran = theodolite(
        "check", surveys["changed"], "--baseline", surveys["base"], "--rules", rules,
        "--json", names["json"], "--junit", names["xml"], "--page", names["html"],
    )  # fmt: skip
    assert ran.code == 1
    found = json.loads(names["json"].read_text("utf-8"))
    broken = [rule["sentence"] for rule in found["rules"] if rule["broken"]]
    assert ran.out.splitlines() == broken
    assert any(line.startswith("mean_cosine at layer") for line in broken)
    assert "note: The weights differ from the baseline." in ran.err
    assert f"{len(broken)} of {len(found['rules'])} rules are broken" in ran.err
    root = ElementTree.parse(names["xml"]).getroot()
    assert int(root.get("failures", "0")) == len(broken)
    page = names["html"].read_text("utf-8")
    assert page.count('class="answer bad"') == len(broken)
    assert page.count('class="answer good"') == len(found["rules"]) - len(broken)
    assert "<svg" in page


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_broken_rules_have_their_exit_code_if_nobody_reads_them(surveys, rules, unbuffered):
    command = "import sys; from theodolite.cli.app import main; sys.argv[0] = 'theodolite'; main()"
    given = "check", surveys["changed"], "--baseline", surveys["base"], "--rules", rules
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [sys.executable, "-c", command, *map(str, given)],
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        stdout=writer,
        check=False,
    )
    os.close(writer)
    assert ran.returncode == 1


def test_without_rules_those_of_init_are_used(theodolite, surveys, rules):
    given = theodolite("check", surveys["changed"], "--baseline", surveys["base"], "--rules", rules)
    proposed = theodolite("check", surveys["changed"], "--baseline", surveys["base"])
    assert (given.code, given.out) == (proposed.code, proposed.out)


def test_rules_may_be_about_any_table(theodolite, surveys, tmp_path):
    out = tmp_path / "rules.toml"
    out.write_text(
        """
        [[rule]]
        table = "tokens"
        column = "n"
        where = { unit = "[CLS]" }
        layers = -1
        equal = true
        [[rule]]
        table = "spectra"
        column = "share"
        where = { rank = 1 }
        population = "without-first"
        max = 0.0
        """,
        encoding="utf-8",
    )
    ran = theodolite("check", surveys["base"], "--baseline", surveys["base"], "--rules", out)
    assert ran.code == 1
    assert len(ran.out.splitlines()) == 1
    assert ran.out.startswith("spectra.share of 1 at layer 3 (block 3): 0.")  # where it is most
    assert ran.out.endswith("; at most 0; and at 3 more places\n")


def test_python_returns_the_result_and_asserts(surveys, rules):
    result = package.check(surveys["base"], surveys["base"], rules=rules)
    assert result.passed
    assert "rules hold" in repr(result)
    opened = package.open(surveys["base"])  # objects in memory
    assert assert_geometry(opened, surveys["base"], rules=[{"column": "mean_cosine", "test": True}]).passed
    with pytest.raises(AssertionError, match=r"rules (is|are) broken") as caught:
        assert_geometry(surveys["changed"], surveys["base"], rules=rules)
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 + len(package.check(surveys["changed"], surveys["base"], rules=rules).broken) + 1
    with pytest.raises(InputError, match="has no column"):
        assert_geometry(opened, opened, rules={"rule": [{"column": "cosine_mean", "max": 1}]})


def test_stores_are_compared_by_their_vectors_and_answers(theodolite, tmp_path):
    rng = np.random.default_rng(0)
    for name, shift in (("base", 0.0), ("same", 0.0), ("moved", 0.5)):
        x = rng.normal(size=(600, 8)) + shift
        package.store(x.astype(np.float32), out=tmp_path / name, cost=False)
    args = ("--baseline", tmp_path / "base")
    ran = theodolite("check", tmp_path / "same", *args)
    assert (ran.code, ran.out) == (0, "")
    ran = theodolite("check", tmp_path / "moved", *args)
    assert ran.code == 1
    assert any(line.startswith("vectors.mean: ") and "after correction" in line for line in ran.out.splitlines())
    out = tmp_path / "rules.toml"
    out.write_text('[[rule]]\ntable = "vectors"\ncolumn = "means"\ntest = true\n', encoding="utf-8")
    ran = theodolite("check", tmp_path / "same", *args, "--rules", out)
    assert ran.code == 2
    assert "'means' is not an aspect of vectors that can be tested. Did you mean 'mean'" in ran.err


def test_steps_of_a_series_are_chosen(theodolite, tmp_path):
    make_series(steps=(0, 10, 100)).write(tmp_path / "run")
    out = tmp_path / "rules.toml"
    out.write_text('[[rule]]\ncolumn = "mean_cosine"\npopulation = "all"\nabsolute = 0.0\n', encoding="utf-8")
    args = ("check", tmp_path / "run", "--baseline", tmp_path / "run", "--rules", out)
    assert theodolite(*args, "--step", 10, "--baseline-step", 10).code == 0
    ran = theodolite(*args, "--step", 10, "--baseline-step", 100)
    assert ran.code == 1
    assert len(ran.out.splitlines()) == 1
    ran = theodolite(*args, "--step", 7)
    assert (ran.code, ran.err) == (
        2,
        f"theodolite: --step 7: the series in {tmp_path / 'run'} has the steps 0, 10, 100.\n",
    )


def test_a_series_that_kept_its_surveys_is_tested_over_documents(theodolite, surveys, tmp_path):
    series = Series.of("tiny", "notes.txt")
    for step, name in ((10, "base"), (20, "changed")):
        shutil.copytree(surveys[name], tmp_path / "run" / f"step-{step}")
        layers = pd.read_parquet(surveys[name] / "layers.parquet")
        series.append(step, name, name, layers, survey=f"step-{step}")
    series.write(tmp_path / "run")
    args = ("check", tmp_path / "run", "--baseline", tmp_path / "run", "--baseline-step", 10)
    assert theodolite(*args, "--step", 10).code == 0
    ran = theodolite(*args, "--page", tmp_path / "a.html")
    assert ran.code == 1
    expected = theodolite("check", surveys["changed"], "--baseline", surveys["base"])
    assert ran.out == expected.out  # the last step, by the same rules
    assert "step 20" in (tmp_path / "a.html").read_text("utf-8")


def test_wrong_input_is_one_sentence(theodolite, surveys, rules, tmp_path):
    base = surveys["base"]

    def err(*arguments: object) -> str:
        ran = theodolite("check", *arguments)
        assert ran.code == 2, (arguments, ran)
        assert ran.err.count("\n") == 1
        return ran.err

    assert "check requires --baseline" in err(base)
    assert "check requires DIR" in err("--baseline", base)
    assert "--init requires the baseline and nothing to check" in err(base, "--baseline", base, "--init")
    assert "has other layers than" in err(surveys["few"], "--baseline", base)
    assert "--step 3: " in err(base, "--baseline", base, "--step", 3)
    assert "there is no such file" in err(base, "--baseline", base, "--rules", tmp_path / "none.toml")
    assert "is not a folder" in err(tmp_path / "none", "--baseline", base)
    package.store(np.eye(20, dtype=np.float32), out=tmp_path / "store", cost=False)
    assert "is the results of a store, and " in err(base, "--baseline", tmp_path / "store")
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "unfinished.json").write_text("{}")
    assert "contains an unfinished survey" in err(base, "--baseline", unfinished)
    old = shutil.copytree(base, tmp_path / "old")
    facts = json.loads((old / "survey.json").read_text("utf-8"))
    (old / "survey.json").write_text(json.dumps(facts | {"schema": 0}), encoding="utf-8")
    assert f"{old} has schema 0; this version reads schema 1" in err(base, "--baseline", old)
    assert "--level must be between 0 and 1 (got 3.0)" in err("--init", "--baseline", base, "--level", 3)


def test_numbers_of_a_series_become_limits_without_documents(tmp_path):
    """A series without surveys has no groups of documents: its rules are limits."""
    from theodolite.api.check import write_rules

    make_series(steps=(0, 10)).write(tmp_path / "run")
    made = write_rules(tmp_path / "run", tmp_path / "rules.toml")
    assert [rule.column for rule in made.rules] == ["twonn", "documents"]
    assert package.check(tmp_path / "run", tmp_path / "run", rules=tmp_path / "rules.toml").passed


def test_the_table_has_one_row_per_number(surveys, rules):
    table = package.check(surveys["fresh"], surveys["base"], rules=rules).table
    tests = table[table["p"].notna()]
    assert (tests["p_adjusted"] >= tests["p"]).all()
    assert pd.api.types.is_bool_dtype(table["broken"])


def test_init_says_that_a_baseline_of_few_documents_has_no_tests(theodolite, surveys, tmp_path):
    base, out = tmp_path / "base", tmp_path / "rules.toml"
    package.survey(surveys["base"].parent / "model0", sentences(5), out=base, **OPTIONS)
    ran = theodolite("check", "--init", "--baseline", base, "--rules", out)
    assert (ran.code, ran.err) == (0, f"note: {out} has no tests, only limits; its first lines say why.\n")
    assert "so there are no tests" in out.read_text("utf-8")


def test_a_value_that_is_no_folder_is_rejected(surveys):
    with pytest.raises(InputError, match="expected a folder or its address, got a value of type int"):
        package.check(surveys["base"], 3)
    with pytest.raises(InputError, match="expected a folder or its address, got a value of type int"):
        package.open(3)
