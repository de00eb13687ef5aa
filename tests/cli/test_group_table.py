"""Groups of documents in the terminal: after a survey, and with theodolite show --groups."""

from __future__ import annotations

import json

import numpy as np

VECTORS = np.random.default_rng(0).normal(size=(300, 6)) + 1
LABELS = np.array(["long name", "b", "b"])[np.arange(300) % 3]


def test_groups_are_printed_and_shown_again(theodolite, tmp_path):
    np.savez(tmp_path / "v.npz", vectors=VECTORS, label=LABELS)
    ran = theodolite("measure", tmp_path / "v.npz", "--by", "label", "--out", tmp_path / "s")
    assert ran.code == 0, ran.err
    assert "groups by label · layer 0 (vectors) · population: all" in ran.out
    shown = theodolite("show", tmp_path / "s", "--groups")
    lines = shown.out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["b", "long"]
    assert lines[-1].split()[2:4] == ["100", "100"]
    rows = json.loads(theodolite("show", tmp_path / "s", "--groups", "--json").out)
    assert {row["group"] for row in rows} == {"b", "long name"}
    wrong = theodolite("show", tmp_path / "s", "--groups", "--layer", "3")
    assert wrong.code != 0
    assert "--layer 3 is not in this survey, which has 0." in wrong.err
    assert "--layer 0 requires --groups" in theodolite("show", tmp_path / "s", "--layer", "0").err


def test_a_survey_without_groups_says_so(theodolite, tmp_path):
    np.save(tmp_path / "v.npy", VECTORS)
    theodolite("measure", tmp_path / "v.npy", "--out", tmp_path / "s")
    ran = theodolite("show", tmp_path / "s", "--groups")
    assert "was made without --by" in ran.err
