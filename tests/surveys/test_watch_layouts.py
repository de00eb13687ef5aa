"""Outputs of modules in other layouts: several calls, time first, and rows that belong to no item."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from tests import oracles
from torch import Tensor, nn

import theodolite
from theodolite.errors import InputError

EXACT = 1e-9
"""Relative, on Q and M: float64 sums."""


def row(found: theodolite.Survey, layer: int, population: str = "all") -> pd.Series:
    rows = found.layers[(found.layers["layer"] == layer) & (found.layers["population"] == population)]
    return rows.iloc[0]


def inputs(items: int, positions: int, count: int = 12, dim: int = 4) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(items, positions, dim) + 1 for _ in range(count)]


class Repeated(nn.Module):
    """One block applied three times."""

    def __init__(self, times: int = 3) -> None:
        super().__init__()
        self.block, self.times = nn.Linear(4, 4), times

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.times if x.shape[1] < 9 else self.times + 1):
            x = self.block(x).tanh()
        return x


def test_each_call_of_a_module_is_a_layer() -> None:
    torch.manual_seed(0)
    model, given = Repeated(), inputs(3, 5)
    found = theodolite.watch(model, given, ["block"])
    names = [layer["name"] for layer in found.facts["layers"]]
    assert names == ["block (call 1)", "block (call 2)", "block (call 3)"]
    x = torch.cat(given)
    with torch.no_grad():
        for layer in range(3):
            states = model.block(x)
            expected = oracles.qmv(states.reshape(-1, 4).double().numpy())
            assert row(found, layer)["q"] == pytest.approx(expected.q, rel=EXACT)
            assert row(found, layer)["n"] == 12 * 15
            x = states.tanh()


def test_another_number_of_calls_is_rejected() -> None:
    given = [*inputs(3, 5, 2), *inputs(3, 9, 1)]
    with pytest.raises(InputError, match=r"called 4 times for input 2 and 3 times when it was first reached"):
        theodolite.watch(Repeated(), given, ["block"])


class TimeFirst(nn.Module):
    """Takes (items, positions, dim), and runs recurrent and attention modules with positions first inside."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 6)
        self.block = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        states = self.block(self.rnn(x.transpose(0, 1))[0])
        return self.head(states).transpose(0, 1)


@pytest.mark.parametrize(("items", "positions"), [(3, 7), (7, 3), (5, 5), (1, 6)])
def test_time_first_outputs_are_recognised(items: int, positions: int) -> None:
    """With as many items as positions, only running the model on other items shows which is which."""
    torch.manual_seed(0)
    model, given = TimeFirst().eval(), inputs(items, positions)
    found = theodolite.watch(model, given, ["rnn", "block", "head"])
    with torch.no_grad():
        states = [model.rnn(x.transpose(0, 1))[0].transpose(0, 1) for x in given]
    later = torch.cat([each[:, 1:].reshape(-1, 6) for each in states]).double().numpy()
    mine = row(found, 0, "without-first")
    assert mine["n"] == len(later) == 12 * items * (positions - 1)
    assert mine["m"] == pytest.approx(oracles.qmv(later).m, rel=EXACT)
    wrong = torch.cat([each.transpose(0, 1)[:, 1:].reshape(-1, 6) for each in states]).double().numpy()
    if items > 1:  # reading the output as (items, positions, dim) would be noticed
        assert oracles.qmv(wrong).m != pytest.approx(oracles.qmv(later).m, rel=1e-3)
    assert row(found, 2, "without-first")["n"] == len(later)
    assert found.facts["identity"]["settings"]["layouts"] == dict.fromkeys(["rnn", "block", "head"], "time-first")


@pytest.mark.parametrize(("items", "positions"), [(3, 7), (5, 5)])
def test_time_first_inputs_are_recognised(items: int, positions: int) -> None:
    """An LSTM itself takes (positions, items, dim)."""
    torch.manual_seed(0)
    model = nn.LSTM(4, 6)
    given = [each.transpose(0, 1).contiguous() for each in inputs(items, positions)]
    labels = [[f"item {k}" for k in range(items)]] * 12
    found = theodolite.watch(model, given, [""], labels=labels, units="label")
    assert row(found, 0)["n"] == 12 * items * positions
    assert row(found, 0, "without-first")["n"] == 12 * items * (positions - 1)
    assert found.facts["corpus"]["documents"] == 12 * items
    counts = found.tokens[found.tokens["population"] == "all"].set_index("unit")["n"]
    assert dict(counts) == {f"item {k}": 12 * positions for k in range(items)}
    plain = theodolite.watch(nn.Linear(4, 6), given, [""], item_dim=1)
    assert plain.facts["corpus"]["documents"] == 12 * items
    with pytest.raises(InputError, match=r"item_dim must be 0 or 1 \(got 2\)"):
        theodolite.watch(model, given, [""], item_dim=2)


class Experts(nn.Module):
    """Routes each position to one of four experts; the last one is rarely chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def route(self, x: Tensor) -> Tensor:
        return (x[:, 0] - 1).mul(1.2).floor().long().clamp(-1, 2) + 1

    def forward(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        flat = hidden.flatten(0, 1)
        out, chosen = torch.zeros_like(flat), self.route(flat)
        for number, expert in enumerate(self.experts):
            where = (chosen == number).nonzero()[:, 0]
            if len(where):
                out[where] = expert(flat[where])
        return out.view_as(hidden)


def test_rows_routed_to_experts_are_counted_without_items() -> None:
    torch.manual_seed(0)
    model, given = Experts(), inputs(2, 3, 40)
    names = [f"experts.{number}" for number in range(4)]
    found = theodolite.watch(model, given, names)
    flat = torch.cat(given).flatten(0, 1)
    for number, name in enumerate(names):
        layer = next(each["index"] for each in found.facts["layers"] if each["name"] == name)
        with torch.no_grad():
            expected = model.experts[number](flat[model.route(flat) == number]).double().numpy()
        assert row(found, layer)["n"] == len(expected)
        # The expert ran on the rows of one input at a time, in float32.
        assert row(found, layer)["q"] == pytest.approx(oracles.qmv(expected).q, rel=1e-6)
        assert row(found, layer, "without-first")["n"] == len(expected)
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    with pytest.raises(InputError, match=r"padding cannot be found in such rows"):
        theodolite.watch(model, [{"hidden": given[0], "attention_mask": mask}], ["experts.1"])
    with pytest.raises(InputError, match=r"these rows belong to no item; units must be none"):
        theodolite.watch(model, given, ["experts.1"], units="position")
    whole = {"hidden": given[0], "attention_mask": torch.ones(2, 3)}
    assert row(theodolite.watch(model, [whole], ["experts.1"]), 0)["n"] > 0


class Fixed(nn.Module):
    """Works only for four items, so that it cannot be run on others."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[0] == 4
        return self.mix(x.transpose(0, 1))


def test_an_unclear_layout_is_asked_for() -> None:
    given = inputs(4, 4)
    with pytest.raises(InputError, match=r"returns the shape \(4, 4, 4\) for 4 items, .*give layout={'mix': "):
        theodolite.watch(Fixed(), given, ["mix"])
    found = theodolite.watch(Fixed(), given, ["mix"], layout={"mix": "time-first"})
    assert row(found, 0, "without-first")["n"] == 12 * 4 * 3
    clear = theodolite.watch(Fixed(), inputs(4, 6), ["mix"])  # the shape is enough
    assert row(clear, 0, "without-first")["n"] == 12 * 4 * 5
    with pytest.raises(InputError, match=r"layout: 'sideways' for 'mix': expected one of items-first, time-first"):
        theodolite.watch(Fixed(), given, ["mix"], layout="sideways")
    with pytest.raises(InputError, match=r"\(6, 4, 4\) for input 0 of 4 items, which is not items-first"):
        theodolite.watch(Fixed(), inputs(4, 6), ["mix"], layout="items-first")


def test_what_is_no_tensor_is_named() -> None:
    class Packs(nn.Module):
        def forward(self, x: Tensor) -> object:
            return np.zeros(len(x))

    with pytest.raises(InputError, match=r"modules: '0' returns ndarray, not a tensor"):
        theodolite.watch(nn.Sequential(Packs()), inputs(2, 3), ["0"])
