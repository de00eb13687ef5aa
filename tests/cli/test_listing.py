"""models, corpora, measures, help: quick, and the same for people and scripts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import theodolite as package
from theodolite.cli.measures import measures_page
from theodolite.measures.formula import formulas

DOCS = Path(__file__).parents[2] / "docs"


def test_models_and_corpora_are_listed(theodolite):
    assert [row["name"] for row in json.loads(theodolite("models", "--json").out)] == [
        "minilm-l6",
        "smollm2-135m",
        "whisper-tiny-en",
        "antiberty",
        "dinov2-small-focus",
        "resnet-50",
    ]
    assert {row["name"] for row in json.loads(theodolite("corpora", "--json").out)} == {
        "chitchat",
        "shakespeare",
        "enwik8",
        "enwik8-clean",
        "speech",
        "pictures",
        "fashion-mnist",
        "digits",
        "udhr",
    }
    kinds = {row["name"]: row["kind"] for row in json.loads(theodolite("corpora", "--json").out)}
    assert (kinds["enwik8-clean"], kinds["speech"], kinds["pictures"]) == ("text", "audio", "images")
    assert "minilm-l6" in theodolite("models").out


@pytest.mark.parametrize("name", ["models", "corpora", "exhibits"])
def test_python_lists_what_the_command_lists(theodolite, name):
    listed = json.loads(theodolite(name, "--json").out)
    table = getattr(package, f"list_{name}")()
    assert list(table.columns) == list(listed[0])
    assert table["name"].tolist() == [row["name"] for row in listed]


def test_folders_of_cached_models_are_listed_as_json(theodolite, monkeypatch, tmp_path):
    for row in json.loads(theodolite("models", "--json").out):
        assert (row["folder"] is not None) == row["here"]
        assert not row["here"] or (Path(row["folder"]) / "config.json").is_file()
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path))
    assert {row["folder"] for row in json.loads(theodolite("models", "--json").out)} == {None}


def test_every_formula_is_listed_and_documented(theodolite):
    plain = theodolite("measures").out
    listed = json.loads(theodolite("measures", "--json").out)
    assert {formula["id"] for formula in listed} == set(formulas())
    assert all(f"{formula['id']}\n" in plain for formula in listed)
    assert all(formula["definition"] and formula["citation"] for formula in listed)


def test_the_page_of_measures_is_current():
    assert (DOCS / "measures.md").read_text("utf-8").strip() == measures_page(formulas().values()).strip()


def test_help_imports_nothing_heavy():
    script = (
        "import sys; sys.argv = ['theodolite', '--help']\n"
        "from theodolite.cli import main\n"
        "try:\n    main()\nexcept SystemExit: pass\n"
        "print([name for name in ('torch', 'transformers', 'pandas', 'numpy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_importing_the_package_is_light():
    script = "import sys, theodolite; print('torch' in sys.modules, sorted(theodolite.__all__))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("False ['Survey'")


def test_an_unknown_verb_is_a_user_error(theodolite):
    ran = theodolite("surveys")
    assert ran.code == 2
    assert "surveys" in ran.err
