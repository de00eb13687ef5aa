"""One block: every number against loops over the definition, on tiny blocks of three families."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.small_models import load, make, sentences
from torch import Tensor

from theodolite.errors import InputError
from theodolite.studies.block.block import block
from theodolite.studies.block.inputs import (
    Inputs,
    draw_sequences,
    own_direction,
    random_direction,
    read_sampled_states,
)
from theodolite.studies.block.isolated_block import IsolatedBlock
from theodolite.studies.block.measurements import measure_attention, measure_states
from theodolite.studies.block.untrained import load_configuration, make_untrained
from theodolite.studies.laboratory import Findings, open_laboratory

FLOAT32 = 2e-5
"""Relative: scores and sums of a float32 block against float64 loops over the same queries and keys."""
POSITIONS = 9
SMALL: dict[str, Any] = {"sequences": 2, "length": 12, "seeds": 2, "directions": 2}


@pytest.fixture(scope="module", params=["bert", "gpt2", "llama"])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, make(request.param, tmp_path_factory.mktemp("models") / request.param)


@pytest.fixture(scope="module")
def subject(family: tuple[str, Path]) -> IsolatedBlock:
    return IsolatedBlock.of(load(family[1])[0], 2, POSITIONS)


def fed(subject: IsolatedBlock, sequences: int = 2) -> Tensor:
    return torch.randn(sequences, POSITIONS, subject.dim, generator=torch.Generator().manual_seed(3))


def test_the_scores_are_those_of_the_blocks_own_attention(family: tuple[str, Path]) -> None:
    name, folder = family
    model = load(folder)[0]
    states, weights = fed(IsolatedBlock.of(model, 2, POSITIONS)), list[Tensor]()
    subject = IsolatedBlock.of(model, 2, POSITIONS)
    _, seen = subject.run_and_capture(states)
    model.config._attn_implementation = "eager"
    hook = subject.projections.attention.register_forward_hook(lambda m, args, out: weights.append(out[1]))
    subject.run(states)
    hook.remove()
    for number, theirs in enumerate(weights[0]):
        scores = subject.scores(subject.rotate(seen.queries)[number], subject.rotate(seen.keys)[number])
        ours = scores.masked_fill(scores == torch.inf, -torch.inf).softmax(dim=-1)
        assert torch.allclose(ours, theirs, atol=1e-6)
    assert subject.causal == (name != "bert")
    assert (subject.rotation is not None) == (name == "llama")
    assert subject.projections.key_heads == (2 if name == "llama" else 4)
    if name == "llama":  # without the rotation the weights are others: the check would see it
        scores = subject.scores(seen.queries[0], seen.keys[0])
        wrong = scores.masked_fill(scores == torch.inf, -torch.inf).softmax(dim=-1)
        assert (wrong - weights[0][0]).abs().max() > 1e-2


def test_the_isolated_block_equals_the_block_in_its_model(family: tuple[str, Path]) -> None:
    """The states that enter block 2 of a running model leave our block as they leave the model's."""
    model = load(family[1])[0]
    subject = IsolatedBlock.of(model, 2, POSITIONS)
    held: list[Any] = []
    hook = subject.block.register_forward_hook(
        lambda m, args, kwargs, out: held.extend([(args or list(kwargs.values()))[0], out]), with_kwargs=True
    )
    model(input_ids=torch.arange(20, 20 + POSITIONS)[None])
    hook.remove()
    entered, left = held[0], held[1] if isinstance(held[1], Tensor) else held[1][0]
    assert torch.allclose(subject.run(entered), left, atol=1e-5)


def test_rows_masked_entries_and_extremes_by_loops(subject: IsolatedBlock) -> None:
    states = fed(subject)
    _, seen = subject.run_and_capture(states)
    tables = measure_attention(subject, seen, states)
    q, k = (subject.rotate(each).double().numpy() for each in (seen.queries, seen.keys))
    group = q.shape[1] // k.shape[1]
    scores: dict[int, list[float]] = {}
    by_length: dict[int, list[list[float]]] = {}
    largest: list[list[float]] = []
    for sequence in range(len(q)):
        for head in range(q.shape[1]):
            best = []
            for i in range(POSITIONS):
                seen_by = range(i + 1) if subject.causal else range(POSITIONS)
                row = [float(q[sequence, head, i] @ k[sequence, head // group, j]) for j in seen_by]
                row = [score / math.sqrt(q.shape[-1]) for score in row]
                scores.setdefault(head, []).extend(row)
                weights = np.exp(row) / np.exp(row).sum()
                numbers = [weights.max(), float(np.median(weights)), weights.min()]
                by_length.setdefault(len(row), []).append(numbers)
                if len(row) >= (POSITIONS // 2 if subject.causal else 1):
                    best.append(weights.max())
            largest.append(max(best))
    for row in tables["scores"].itertuples():
        mine = np.array(scores[row.head])
        assert row.n == len(mine)
        assert row.mean == pytest.approx(mine.mean(), rel=FLOAT32, abs=FLOAT32)
        assert row.sd == pytest.approx(mine.std(), rel=1e-4)
        assert (row.low, row.high) == pytest.approx((mine.min(), mine.max()), rel=FLOAT32)
    assert sorted(tables["softmax"]["length"]) == sorted(by_length)
    for row in tables["softmax"].itertuples():
        expected = np.mean(by_length[row.length], axis=0)
        assert row.rows == len(by_length[row.length])
        assert (row.maximum, row.median, row.minimum) == pytest.approx(expected, rel=FLOAT32)
    longest = tables["extremes"].sort_values("least_length").iloc[-1]
    assert longest["maximum"] == pytest.approx(np.mean(largest), rel=FLOAT32)
    if subject.causal:  # the tempting way: the first row has one entry, so the maximum of all rows says nothing
        assert tables["extremes"].set_index("least_length").loc[1, "maximum"] == 1.0
        assert longest["maximum"] < 1
    every = np.concatenate([np.array(each) for each in scores.values()])
    histogram = tables["histogram"]
    assert histogram["count"].sum() == len(every)  # masked entries are in no bin
    for row in histogram.itertuples():
        inside = ((every >= row.left) & (every < row.right)).sum()
        assert abs(row.count - inside) <= 1, "a score within rounding of an edge"


def test_queries_and_keys_by_loops(subject: IsolatedBlock) -> None:
    states = fed(subject)
    _, seen = subject.run_and_capture(states)
    heads = measure_attention(subject, seen, states)["heads"].set_index(["of", "rotated", "head"])
    for kind, vectors in (("query", seen.queries), ("key", seen.keys)):
        for turned in (False, True) if subject.rotation is not None else (False,):
            mine = subject.rotate(vectors) if turned else vectors
            for head in range(mine.shape[1]):
                rows = mine[:, head].reshape(-1, mine.shape[-1]).double().numpy()
                unit = [row / np.linalg.norm(row) for row in rows]
                found = heads.loc[(kind, turned, head)]
                cosine = np.mean([a @ b for a, b in combinations(unit, 2)])
                assert found["mean_cosine"] == pytest.approx(cosine, abs=1e-9)
                assert found["mean_norm"] == pytest.approx(np.mean([math.sqrt(r @ r) for r in rows]))
                assert found["norm_of_mean"] == pytest.approx(np.linalg.norm(rows.mean(axis=0)))
    if subject.rotation is not None:  # rotation keeps every norm and moves the mean
        before, after = (heads.xs(turned, level="rotated") for turned in (False, True))
        assert np.allclose(before["mean_norm"], after["mean_norm"], rtol=1e-5)
        assert not np.allclose(before["norm_of_mean"], after["norm_of_mean"], rtol=1e-2)
        assert heads.xs(True, level="rotated")["expected_error"].isna().all()


def test_the_expected_query_is_the_projected_mean(subject: IsolatedBlock) -> None:
    """Equation 1 holds of what the projections read; of what enters the block only where no norm is between."""
    states = 1 + fed(subject)
    _, seen = subject.run_and_capture(states)
    heads = measure_attention(subject, seen, states)["heads"].query("not rotated")
    assert (heads["expected_error"] < 1e-5).all()  # float32 projections of a float64 mean
    if subject.closing_norm is not None:
        assert np.allclose(heads["expected_error"], heads["expected_error_of_input"])
    else:
        assert (heads["expected_error_of_input"] > 1e-2).all()


def test_state_norms_by_loops() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(3, 4, 6)).astype(np.float32)
    x[0, 0] = 0  # no direction
    x[1, 2, 3] = 3000.0
    rows = x.reshape(-1, 6).astype(np.float64)
    found = measure_states(torch.from_numpy(x))
    norms = [math.sqrt(sum(v * v for v in row)) for row in rows]
    unit = [row / norm for row, norm in zip(rows, norms, strict=True) if norm > 0]
    assert found.mean_norm == pytest.approx(np.mean(norms), rel=1e-12)
    assert found.norm_of_mean == pytest.approx(np.linalg.norm(rows.mean(axis=0)), rel=1e-12)
    assert found.mean_cosine == pytest.approx(np.mean([a @ b for a, b in combinations(unit, 2)]), abs=1e-12)
    assert math.isnan(measure_states(torch.zeros(1, 3, 6)).mean_cosine)


def small_bert(folder: Path) -> str:
    from transformers import BertConfig

    BertConfig(
        vocab_size=200,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=32,
    ).save_pretrained(folder)
    return str(folder / "config.json")


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return block(config=small_bert(tmp_path_factory.mktemp("bert")), **SMALL)


def test_the_fixed_point_of_a_fresh_post_ln_block_is_in_closed_form(post: Findings) -> None:
    """What leaves has the norm sqrt(d) whatever enters, so N* is sqrt(d - E|x|^2) but for E x . b."""
    points = post.tables["fixed_points"].query("quantity == 'mean_norm'")
    squares = post.tables["runs"].set_index("run")["mean_square"]
    assert np.allclose(points["closed_form"], np.sqrt(64 - squares), rtol=1e-6)
    assert np.allclose(points["n_star"], points["closed_form"], rtol=2e-3)  # 2 E x . b/d, over 12 rows
    assert points["attracting"].all()
    out = post.tables["norms"]
    assert np.allclose(out["mean_norm_out"], 8, rtol=1e-5)
    # The tempting reading: the norm of the mean is another thing, and far from sqrt(d) without a bias.
    assert out.query("norm == 0")["norm_of_mean_out"].max() < 5


def test_directions_and_seeds_give_the_uncertainty(post: Findings) -> None:
    summary = post.tables["summary"].set_index("quantity")
    for quantity in ("mean_norm", "norm_of_mean"):
        stars = post.tables["fixed_points"].query(f"quantity == '{quantity}'")["n_star"]
        assert len(stars) == 4
        assert stars.nunique() == 4, "every run has a direction and a seed of its own"
        assert summary.loc[quantity, "n_star"] == pytest.approx(stars.mean())
        assert summary.loc[quantity, "n_star_sd"] == pytest.approx(np.std(stars, ddof=1))
    directions = post.vectors["directions"]
    assert torch.allclose(directions.norm(dim=1), torch.ones(4))
    assert post.tables["runs"]["sequences"].tolist() == [2, 1, 1, 1]


def test_random_directions_are_uniform() -> None:
    many = torch.stack([random_direction(16, seed=s, number=n) for s in range(20) for n in range(20)])
    assert many.mean(dim=0).norm() < 3 / math.sqrt(len(many))  # E of the squared norm is 1/400
    assert torch.equal(random_direction(16, seed=1, number=2), random_direction(16, seed=1, number=2))


def test_a_block_without_a_fixed_point_has_a_reason(family: tuple[str, Path]) -> None:
    if family[0] == "bert":
        return
    found = block(str(family[1]), layer=1, norms=[0, 0.01], **SMALL)
    summary = found.tables["summary"]
    assert summary["reason"].tolist() == ["none in range"] * 2
    assert summary["n_star"].isna().all()


def test_it_is_repeatable_keeps_the_global_generator_and_opens_again(post: Findings, tmp_path: Path) -> None:
    before = torch.random.get_rng_state()
    again = block(config=small_bert(tmp_path / "config"), out=tmp_path / "out", **SMALL)
    assert torch.equal(before, torch.random.get_rng_state())
    assert again.tables["norms"].equals(post.tables["norms"])
    assert open_laboratory(tmp_path / "out").tables["softmax"].equals(again.tables["softmax"])
    with pytest.raises(InputError, match="--overwrite"):
        block(config="gpt2", out=tmp_path / "out")


def test_dropout_is_off_and_weights_follow_the_configuration(tmp_path: Path) -> None:
    config = load_configuration(small_bert(tmp_path))
    model = make_untrained(config, 0)
    states = torch.randn(1, 8, 64)
    subject = IsolatedBlock.of(model, 1, 8)
    assert torch.equal(subject.run(states), subject.run(states))
    query = subject.projections.modules[0]
    assert query.bias.abs().max() == 0  # type: ignore[union-attr, operator]
    assert float(query.weight.std()) == pytest.approx(0.02, rel=0.1)  # type: ignore[operator, arg-type]
    torchs = IsolatedBlock.of(make_untrained(config, 0, "torch"), 1, 8).projections.modules[0]
    assert torchs.bias.abs().max() > 0.05  # type: ignore[union-attr, operator]


def test_sampled_states_and_the_bias_along_their_mean(family: tuple[str, Path], tmp_path: Path) -> None:
    import theodolite

    if family[0] != "bert":
        return
    theodolite.survey(str(family[1]), corpus=sentences(12), out=tmp_path / "survey")
    states = read_sampled_states(tmp_path / "survey", 1, "all")
    found = block(
        str(family[1]),
        layer=2,
        inputs="states",
        survey=tmp_path / "survey",
        norms=[0, 1, 10],
        **SMALL,
    )
    mean = states.double().mean(dim=0)
    assert torch.allclose(found.vectors["directions"][0].double(), mean / mean.norm(), atol=1e-6)
    assert torch.equal(own_direction(states), found.vectors["directions"][1])
    assert len(found.tables["runs"]) == 2  # a direction of its own leaves one run a seed
    trained = found.tables["trained"].set_index("layer")
    assert trained.loc[1, "mean_norm"] == pytest.approx(float(states.double().norm(dim=1).mean()))
    table = Inputs(draw_sequences(states, 2, 12, seed=0), own_direction(states)).add_bias(10.0)
    assert found.tables["norms"].query("run == 0 and norm == 10")["mean_norm_in"].item() == pytest.approx(
        float(table.double().norm(dim=-1).mean())
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either a MODEL or --config"),
        ({"model": "x", "config": "gpt2"}, "either a MODEL or --config"),
        ({"config": "bert"}, "Did you mean 'bert-base'"),
        ({"config": "gpt2", "inputs": "states", "survey": "s"}, "--inputs states requires a trained model"),
        ({"config": "gpt2", "inputs": "states"}, "give --survey DIR"),
        ({"config": "gpt2", "norms": [3, 1]}, "--norms must be two or more increasing numbers"),
        ({"config": "gpt2", "seeds": 0}, r"--seeds must be at least 1 \(got 0\)"),
        ({"config": "gpt2", "initialisation": "zero"}, "--initialisation 'zero'"),
        ({"config": "gpt2", "population": "none"}, "--population 'none'"),
    ],
)
def test_bad_input_is_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        block(**options)


def test_a_layer_or_length_out_of_range_is_rejected(family: tuple[str, Path]) -> None:
    with pytest.raises(InputError, match=r"--layer 9: .* has blocks 1 to"):
        block(str(family[1]), layer=9, **SMALL)
    with pytest.raises(InputError, match=r"--length must be between 2 and 64 positions \(got 65\)"):
        block(str(family[1]), **{**SMALL, "length": 65})


def test_blocks_that_shift_their_scores_are_rejected() -> None:
    from transformers import Qwen3Config, Qwen3Model

    config = Qwen3Config(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=64,
        max_position_embeddings=32,
        use_cache=False,
    )
    with pytest.raises(InputError, match="its attention weights differ from the softmax"):
        IsolatedBlock.of(Qwen3Model(config).eval().requires_grad_(False), 1, 8)


def test_a_fused_projection_with_shared_keys() -> None:
    """Phi-3 has one projection for four heads of queries, two of keys and two of values."""
    from transformers import AutoModel, Phi3Config

    torch.manual_seed(0)
    shapes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    config = Phi3Config(vocab_size=60, intermediate_size=64, pad_token_id=0, eos_token_id=0, **shapes)
    subject = IsolatedBlock.of(
        AutoModel.from_config(config).eval(), 2, POSITIONS
    )  # compares its scores with its own
    _, seen = subject.run_and_capture(fed(subject))
    assert seen.queries.shape == (2, 4, POSITIONS, 8)
    assert seen.keys.shape == (2, 2, POSITIONS, 8)
