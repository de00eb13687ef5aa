"""The same weights under other settings are another model: it is neither resumed nor merged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.small_models import make, sentences

import theodolite
from theodolite.errors import InputError
from theodolite.models.checkpoint import settings_sha256
from theodolite.surveys.provenance import differences


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    settings = json.loads(path.read_text())
    change(settings)
    path.write_text(json.dumps(settings))


def test_other_settings_are_neither_resumed_nor_merged(tmp_path: Path) -> None:
    model, out = make("bert", tmp_path / "model"), tmp_path / "out"
    first = theodolite.survey(str(model), sentences(20, seed=1), out=out, device="cpu")
    changed(model / "config.json", lambda config: config.update(layer_norm_eps=1.0))
    with pytest.raises(InputError, match=r"has other settings; .*:\n  model\.settings"):
        theodolite.survey(str(model), sentences(20, seed=1), out=out, device="cpu", resume=True)
    other = theodolite.survey(str(model), sentences(20, seed=2), device="cpu")
    with pytest.raises(InputError, match=r"cannot be merged: its settings differ\..*\n  model\.settings"):
        theodolite.merge([first, other])


@pytest.mark.parametrize(
    ("file", "change", "same"),
    [
        ("config.json", lambda settings: settings.update(transformers_version="0", dtype="bfloat16"), True),
        ("config.json", lambda settings: settings.update(hidden_act="relu"), False),
        ("tokenizer.json", lambda settings: settings.update(truncation={"max_length": 8}), True),
        ("tokenizer.json", lambda settings: settings.update(normalizer=None), False),
        ("preprocessor_config.json", lambda settings: settings.update(do_rescale=False), False),
    ],
)
def test_the_settings_digest_covers_what_affects_the_states(
    tmp_path: Path, file: str, change: Callable[[dict[str, Any]], object], same: bool
) -> None:
    model = make("bert", tmp_path)
    (model / "preprocessor_config.json").write_text("{}")
    before = settings_sha256(model)
    changed(model / file, change)
    assert (settings_sha256(model) == before) is same


def test_older_surveys_without_a_settings_digest_are_resumed() -> None:
    assert differences({"model": {"sha256": "a"}}, {"model": {"sha256": "a", "settings": "b"}}) == []
    assert differences({"model": {"settings": "a"}}, {"model": {"settings": "b"}}) != []
