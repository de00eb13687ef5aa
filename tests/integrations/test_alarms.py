"""Alarms: planted faults raise the alarm that names them, and healthy changes raise none."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.integrations.tiny_training import tiny
from tests.shared import slow
from tests.small_models import sentences
from torch import Tensor

from theodolite.errors import InputError
from theodolite.integrations import Alarms, GeometryProbe, GeometryWarning
from theodolite.integrations.alarms import AlarmDetector
from theodolite.studies.series import Series

TEXTS = sentences(10, seed=9)


def _detect(kind: str, values: Sequence[float], thresholds: Alarms = Alarms()) -> list[int]:  # noqa: B008
    """Return the steps at which values of one kind raise an alarm."""
    detector, found = AlarmDetector(thresholds), []
    for step, value in enumerate(values):
        row: dict[str, Any] = {"layer_name": "block 1", "n": 1000, "nonfinite": 0, "norm_p50": 1.0, "massive": 0}
        row |= {"norm": {"norm_p50": value}, "sinks": {"massive": int(value)}}.get(kind, {})
        updates = {"block 1": value} if kind == "dead" else {}
        attention = {"attention_max": 0.1, "logit_max": 1.0}
        attention |= {"attention": {"attention_max": value}, "logits": {"logit_max": value}}.get(kind, {})
        sharpness = pd.DataFrame([{"layer_name": "block 1", **attention}])
        found += [each.step for each in detector.update(step, pd.DataFrame([row]), updates, sharpness)]
    return found


def test_norms_are_compared_with_the_measurements_before() -> None:
    """A norm that grows 40-fold in a healthy run is no alarm; a jump by the same factor is."""
    slow = np.geomspace(1, 40, 12).tolist()
    assert _detect("norm", slow) == []
    assert _detect("norm", [1, 1, 1, 40, 40, 40]) == [4], "after two measurements in a row, once"
    assert _detect("norm", [1, 1, 1, 40, 1, 40, 1, 40]) == [], "single outliers"
    assert _detect("norm", [1, 40, 40, 40]) == [], "the baseline needs three measurements"
    # The tempting rule, a factor of the first measurement, would raise an alarm in the healthy run.
    assert any(value > 3 * slow[0] for value in slow)


def test_a_block_that_dies_slowly_is_found() -> None:
    assert _detect("dead", [0.5, 0.5, 0.5, 0.0, 0.0]) == [4]
    dying = (0.5 * 0.7 ** np.arange(15)).tolist()
    steps = _detect("dead", dying)
    assert len(steps) == 1
    assert dying[steps[0]] < 0.05 * 0.5
    assert _detect("dead", [0.5, 0.4, 0.3, 0.1, 0.1, 0.05]) == []


def test_new_sinks_are_found_and_old_ones_are_not() -> None:
    assert _detect("sinks", [0, 0, 0, 5, 5]) == [4]
    assert _detect("sinks", [5, 5, 5, 6, 6, 7, 8, 9]) == []
    assert _detect("sinks", [0, 0, 0, 1, 0, 1, 1]) == [], "0.1% of the positions is the limit"
    assert _detect("sinks", [0, 0, 0, 5, 5], Alarms(sinks=None)) == []


def test_attention_that_becomes_sharp_is_found() -> None:
    assert _detect("attention", [0.2, 0.3, 0.4, 0.95, 0.97]) == [4]
    assert _detect("attention", [0.2, 0.3, 0.5, 0.6, 0.7, 0.8]) == []
    assert _detect("attention", [0.93, 0.92, 0.94, 0.95, 0.96]) == [], "a model that was sharp from the beginning"


def test_spiking_logits_are_found_and_growing_ones_are_not() -> None:
    assert _detect("logits", [5, 6, 8, 90, 95]) == [4]
    assert _detect("logits", [0.1, 0.2, 0.3, 5, 8, 20, 28]) == [], "a hundredfold in the first steps, and harmless"
    assert _detect("logits", np.geomspace(1, 120, 14).tolist()) == [], "slow growth"
    assert _detect("logits", [85, 80, 90, 100, 95]) == [], "large from the beginning, as in a trained model"
    assert _detect("logits", [85, 80, 90, 300, 400]) == [4]
    assert _detect("logits", [5, 6, 8, 90, 95], Alarms(logits=None)) == []


def test_attention_is_measured_on_request_and_its_implementation_is_restored(tmp_path: Path) -> None:
    """Queries and keys 100 times as long: nearly all weight goes to one position."""
    model, tokenizer = tiny("decoder")
    kernel = model.config._attn_implementation
    probe = GeometryProbe(TEXTS, tokenizer, share=None, attention=3, collapse=None, out=tmp_path / "s")
    names = ("attention_max", "attention_entropy_share", "logit_max")
    for step in range(5):
        if step == 3:
            with torch.no_grad():
                model.model.layers[0].self_attn.q_proj.weight.mul_(1e4)
                model.model.layers[0].self_attn.k_proj.weight.mul_(1e4)
        else:
            with torch.no_grad():
                model.model.layers[1].mlp.down_proj.weight.add_(1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numbers = probe.measure(model, step)
        assert {f"geometry/block_1/{name}" for name in names} < numbers.keys()
    assert model.config._attn_implementation == kernel
    for kind in ("attention", "logits"):
        assert [(each.step, each.layer) for each in probe.alarms if each.kind == kind] == [(4, "block 1")]
    table = Series.read(tmp_path / "s").tables["attention"]
    assert sorted(table["step"].unique()) == [0, 1, 2, 3, 4]
    # The definition, on the same documents, read one by one; the first row of a causal model has one entry.
    model.eval().set_attn_implementation("eager")
    from theodolite.studies.series.attention import select_documents

    largest = []
    for _, text in select_documents(list(enumerate(TEXTS)), 3):
        weights = model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions[0][0]
        largest.append(weights[:, 1:].max(dim=2).values.flatten())
    assert numbers["geometry/block_1/attention_max"] == pytest.approx(float(torch.cat(largest).mean()), rel=1e-4)


def test_wrong_thresholds_are_rejected() -> None:
    for wrong, words in [
        ({"norm": 1.0}, "norm must be a factor above 1"),
        ({"logits": 0.5}, "logits must be a factor above 1"),
        ({"dead": 0}, "dead must be between 0 and 1"),
        ({"sinks": 2}, "sinks must be between 0 and 1"),
        ({"patience": 0}, "patience must be a number of measurements, at least 1"),
        ({"baseline": 2}, "baseline must be a number of measurements, at least 3"),
    ]:
        with pytest.raises(InputError, match=words):
            Alarms(**wrong)  # type: ignore[arg-type]


def _measure(probe: GeometryProbe, fault: str, steps: range) -> list[str]:
    """Measure a decoder with small random changes, and a fault from step 4 on; return the warnings."""
    model, _ = tiny("decoder")
    generator = torch.Generator().manual_seed(1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for step in steps:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(0.002 * torch.randn(parameter.shape, generator=generator))
                if step >= 4 and fault == "dead":
                    model.model.layers[1].self_attn.o_proj.weight.zero_()
                    model.model.layers[1].mlp.down_proj.weight.zero_()
                if step == 4 and fault == "logits":
                    model.model.layers[1].self_attn.q_proj.weight.mul_(1e5)
                if step == 4 and fault == "norm":
                    model.model.embed_tokens.weight.mul_(30)
                if step == 4 and fault == "finite":
                    model.model.embed_tokens.weight[probe.tokenizer(TEXTS[0])["input_ids"][1]] = float("nan")
            hook = model.model.layers[0].register_forward_hook(_sink, prepend=True) if fault == "sinks" else None
            if hook is not None and step < 4:
                hook.remove()
            probe.measure(model, step)
            if hook is not None:
                hook.remove()
    return [str(each.message) for each in seen if issubclass(each.category, GeometryWarning)]


def _sink(module: Any, args: Any, output: Any) -> None:
    (output[0] if isinstance(output, tuple) else output)[:, 0, 3] = 3000.0


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("dead", "step 5: block 2 is dead: it changed its input by "),
        slow("norm", "step 5: embeddings is exploding: its median norm was at most "),
        slow(
            "sinks", "step 5: block 1 has new sinks: 0.00% of its positions were massive in the baseline, and now "
        ),
        ("finite", "step 4: embeddings has states that are NaN or infinite: "),
        ("healthy", ""),
    ],
)
def test_planted_faults_raise_their_alarm(fault: str, words: str, tmp_path: Path) -> None:
    tokenizer = tiny("decoder")[1]
    probe = GeometryProbe(TEXTS, tokenizer, share=None, layers="all", out=tmp_path / "s", collapse=None)
    found = _measure(probe, fault, range(7))
    kinds = {each.kind for each in probe.alarms}
    # Beside embeddings that are 30 times as long, what the blocks add hardly counts.
    assert kinds - ({"dead"} if fault == "norm" else set()) == ({fault} if words else set())
    if words:
        assert any(message.startswith(words) for message in found), found
        assert Series.read(tmp_path / "s").notes["alarms"] == [str(each) for each in probe.alarms]
    else:
        assert found == []


def test_planted_queries_raise_the_alarm_for_logits() -> None:
    """Without the fault, the same measurements raise none."""
    tokenizer = tiny("decoder")[1]
    for fault, kinds in (("logits", {"logits", "attention"}), ("healthy", set[str]())):
        probe = GeometryProbe(TEXTS, tokenizer, share=None, layers="all", attention=4, collapse=None)
        found = _measure(probe, fault, range(6))
        assert {(each.layer, each.kind) for each in probe.alarms} == {("block 2", kind) for kind in kinds}
        assert any("has spiking attention logits" in message for message in found) == (fault == "logits")


def test_a_dead_block_that_normalizes_its_output_is_found() -> None:
    """The output of BERT's block differs from its input also where the block adds nothing."""
    model, tokenizer = tiny("encoder")
    probe = GeometryProbe(TEXTS, tokenizer, share=None, layers="all", collapse=None)
    generator, states = torch.Generator().manual_seed(1), dict[str, Tensor]()
    block = model.bert.encoder.layer[1]
    block.register_forward_hook(lambda module, args, output: states.update(x=args[0], y=output))
    for step in range(7):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
            for part in (block.attention.output.dense, block.output.dense) if step >= 4 else ():
                part.weight.zero_()
                part.bias.zero_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GeometryWarning)
            probe.measure(model, step)
    assert [(each.step, each.layer, each.kind) for each in probe.alarms] == [(5, "block 2", "dead")]
    assert probe.updates["block 2"] == 0
    # The tempting measure, |y - x|/|x|, does not show it.
    x, y = states["x"].flatten(0, -2), states["y"].flatten(0, -2)
    assert ((y - x).norm(dim=1) / x.norm(dim=1)).mean() > 0.05


def test_a_resumed_run_keeps_its_baseline(tmp_path: Path) -> None:
    """Resumed at the first step of the fault: the alarm comes at the next one, as without the interruption."""
    tokenizer = tiny("decoder")[1]
    options: dict[str, Any] = {"share": None, "layers": "all", "collapse": None, "out": tmp_path / "s"}
    _measure(GeometryProbe(TEXTS, tokenizer, **options), "dead", range(5))
    resumed = GeometryProbe(TEXTS, tokenizer, resume=True, **options)
    model, _ = tiny("decoder")
    with torch.no_grad():
        model.model.layers[1].self_attn.o_proj.weight.zero_()
        model.model.layers[1].mlp.down_proj.weight.zero_()
    with pytest.warns(GeometryWarning, match="step 5: block 2 is dead"):
        resumed.measure(model, 5)


def test_the_update_of_a_block_is_its_definition() -> None:
    model, tokenizer = tiny("decoder")
    probe = GeometryProbe(TEXTS, tokenizer, share=None, positions=10**6)
    probe.measure(model, 0)
    ratios: list[torch.Tensor] = []
    with torch.no_grad():
        for text in TEXTS:
            states = model.eval().model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True)
            before, after = (states.hidden_states[k][0].double() for k in (0, 1))
            ratios.append((after - before).norm(dim=1) / before.norm(dim=1))
    # Sums of float32 ratios over other batches.
    assert probe.updates["block 1"] == pytest.approx(float(torch.cat(ratios).mean()), rel=1e-5)
