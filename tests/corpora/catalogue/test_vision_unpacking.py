"""Converting vision models from ONNX and TensorFlow.js files, on small weights."""

import json

import numpy as np
import pytest
import torch
from torch.nn import functional

from theodolite.corpora.catalogue.onnx_file import OnnxWeights, read_onnx
from theodolite.corpora.catalogue.vision_unpacking import (
    convert_dinov2,
    convert_resnet,
    make_dinov2_config,
    read_tensorflow_js,
)
from theodolite.errors import DamagedError

SIDE, DIM = 14, 128


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(name: str, array: np.ndarray, *, packed: bool = False, kind: int = 1) -> bytes:
    sizes = b"".join(map(varint, array.shape))
    dims = field(1, sizes) if packed else b"".join(field(1, size) for size in array.shape)
    return field(5, dims + field(2, kind) + field(8, name.encode()) + field(9, array.astype("<f4").tobytes()))


def node(name: str, *inputs: str) -> bytes:
    return field(
        1, b"".join(field(1, each.encode()) for each in inputs) + field(3, name.encode()) + field(4, b"Op")
    )


def write_onnx(path, *parts: bytes):
    # A version, a producer and a 32-bit field that no ONNX file has come first: unknown fields are passed over.
    path.write_bytes(
        field(1, 7) + field(2, b"test") + bytes([15 << 3 | 5, 0, 0, 0, 0]) + field(7, b"".join(parts))
    )
    return path


def test_weights_and_their_readers_are_read(tmp_path):
    weight, bias = np.arange(300.0).reshape(20, 15), np.array([1.5, -2.0])
    file = write_onnx(
        tmp_path / "m.onnx",
        tensor("onnx::MatMul_7", weight),
        node("/a/MatMul", "x", "onnx::MatMul_7"),
        tensor("a.bias", bias, packed=True),
        node("/a/Add", "a.bias"),
        tensor("shape", np.array([1.0]), kind=7),
    )
    found = read_onnx(file)
    assert set(found.tensors) == {"onnx::MatMul_7", "a.bias"}  # not the int64
    np.testing.assert_array_equal(found.tensors["onnx::MatMul_7"], weight)
    np.testing.assert_array_equal(found.tensors["a.bias"], bias)
    assert found.readers["onnx::MatMul_7"] == ["/a/MatMul"]


@pytest.mark.parametrize("cut", [1, 40, 700])
def test_a_truncated_file_is_an_error_that_names_it(tmp_path, cut):
    file = write_onnx(tmp_path / "m.onnx", tensor("a", np.arange(300.0)))
    file.write_bytes(file.read_bytes()[:-cut])
    with pytest.raises(DamagedError, match=r"m\.onnx is not an ONNX file, or is damaged: .*truncated"):
        read_onnx(file)


def test_a_file_without_weights_is_an_error(tmp_path):
    with pytest.raises(DamagedError, match=r"m\.onnx holds no float32 weights"):
        read_onnx(write_onnx(tmp_path / "m.onnx", node("/a", "x")))


def test_dinov2_is_named_by_the_nodes_that_read_its_weights():
    """A model is taken apart as PyTorch exports it, and put together again."""
    from transformers import Dinov2Config, Dinov2Model

    torch.manual_seed(0)
    config = Dinov2Config(
        hidden_size=DIM, num_hidden_layers=2, num_attention_heads=2, patch_size=SIDE, image_size=3 * SIDE
    )
    model = Dinov2Model(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    named = {"q_proj": "attention.query", "k_proj": "attention.key", "v_proj": "attention.value"}
    named |= {"o_proj": "output.dense"}
    found = OnnxWeights({"decoder.bias": np.zeros(3, "f4")})
    for number, (name, weight) in enumerate(model.state_dict().items()):
        for ours, published in named.items():
            name = name.replace(ours, published)
        array = weight.numpy()
        if name.endswith("position_embeddings"):
            for part, reader in ((array[:, :1], "Concat_9"), (array[:, 1:], "Reshape_1")):
                found.tensors[f"onnx::{reader}"] = part
                found.readers[f"onnx::{reader}"] = [f"/backbone/embeddings/{reader}"]
        elif array.ndim == 2 and not name.endswith("mask_token"):
            found.tensors[f"onnx::MatMul_{number}"] = array.T
            module = name.removesuffix(".weight").replace(".", "/").replace("layer/", "layer.")
            found.readers[f"onnx::MatMul_{number}"] = [f"/backbone/{module}/MatMul"]
        elif not name.endswith("mask_token"):
            found.tensors[f"backbone.{name}"] = array
    weights = convert_dinov2(found)
    assert not weights["embeddings.mask_token"].any()
    settings = make_dinov2_config(weights)
    for name in (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "patch_size",
        "image_size",
        "mlp_ratio",
    ):
        assert getattr(settings, name) == getattr(config, name), name
    again = Dinov2Model.from_pretrained(None, config=settings, state_dict=weights).eval()
    pixels = torch.randn(2, 3, 4 * SIDE, 3 * SIDE)
    with torch.no_grad():
        assert torch.equal(again(pixels).last_hidden_state, model(pixels).last_hidden_state)


WIDTHS = {"2": (4, 16), "3": (8, 32)}  # of the bottleneck and of the output of each stage


def make_keras_weights() -> dict[str, np.ndarray]:
    """Return random weights of a ResNet of two stages of two layers, by Keras' names."""
    rng = np.random.default_rng(0)
    weights: dict[str, np.ndarray] = {}

    def add(name: str, norm: str, size: int, inside: int, outside: int) -> None:
        weights[f"{name}/kernel"] = rng.normal(0, (size * size * inside) ** -0.5, (size, size, inside, outside))
        weights[f"{name}/bias"] = rng.normal(0, 1, outside)
        for part, scale in (("gamma", 1), ("beta", 1), ("moving_mean", 1)):
            weights[f"{norm}/{part}"] = rng.normal(0, scale, outside)
        # Small variances, where the epsilon matters.
        weights[f"{norm}/moving_variance"] = rng.uniform(0, 0.01, outside)

    add("conv1", "bn_conv1", 7, 3, 6)
    last = 6
    for stage, (narrow, wide) in WIDTHS.items():
        for layer in "ab":
            place = f"{stage}{layer}_branch"
            if layer == "a":
                add(f"res{place}1", f"bn{place}1", 1, last, wide)
            add(f"res{place}2a", f"bn{place}2a", 1, last, narrow)
            add(f"res{place}2b", f"bn{place}2b", 3, narrow, narrow)
            add(f"res{place}2c", f"bn{place}2c", 1, narrow, wide)
            last = wide
    weights["fc1000/kernel"], weights["fc1000/bias"] = rng.normal(size=(last, 10)), rng.normal(size=10)
    return {name: array.astype("f4") for name, array in weights.items()}


def run_keras(weights: dict[str, np.ndarray], pixels: torch.Tensor) -> torch.Tensor:
    """Return the logits as Keras defines them, in float64, for pictures in red, green, blue."""

    def apply(name: str, norm: str, x: torch.Tensor, stride: int = 1, padding: int = 0) -> torch.Tensor:
        get = {key: torch.tensor(array).double() for key, array in weights.items()}
        kernel = get[f"{name}/kernel"].permute(3, 2, 0, 1)
        x = functional.conv2d(x, kernel, get[f"{name}/bias"], stride, padding)
        gamma, beta, mean, variance = (
            get[f"{norm}/{part}"][:, None, None] for part in ("gamma", "beta", "moving_mean", "moving_variance")
        )
        return gamma * (x - mean) / (variance + 1e-3).sqrt() + beta

    x = apply("conv1", "bn_conv1", pixels.double().flip(1), 2, 3).relu()
    x = functional.max_pool2d(functional.pad(x, (1, 1, 1, 1)), 3, 2)
    for stage in WIDTHS:
        for layer in "ab":
            place = f"{stage}{layer}_branch"
            stride = 2 if (stage, layer) == ("3", "a") else 1
            shortcut = apply(f"res{place}1", f"bn{place}1", x, stride) if layer == "a" else x
            y = apply(f"res{place}2a", f"bn{place}2a", x, stride).relu()
            y = apply(f"res{place}2b", f"bn{place}2b", y, 1, 1).relu()
            x = (apply(f"res{place}2c", f"bn{place}2c", y) + shortcut).relu()
    return x.mean((2, 3)) @ torch.tensor(weights["fc1000/kernel"]).double() + torch.tensor(weights["fc1000/bias"])


def test_resnet_computes_what_keras_defines():
    from transformers import ResNetConfig, ResNetForImageClassification

    weights = make_keras_weights()
    config = ResNetConfig(
        embedding_size=6, hidden_sizes=[16, 32], depths=[2, 2], downsample_in_bottleneck=True, num_labels=10
    )
    model = ResNetForImageClassification(config).eval()
    model.load_state_dict(convert_resnet(weights))
    pixels = torch.randn(3, 3, 64, 48, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = model(pixels).logits.double()
        expected = run_keras(weights, pixels)
        # float32 through ten convolutions
        assert (found - expected).norm() <= 1e-4 * expected.norm()
        # Without the smaller epsilon, or with the channels in the other order, the numbers are others.
        assert (model(pixels.flip(1)).logits - expected).norm() > 0.1 * expected.norm()
        for name, buffer in model.named_buffers():
            if name.endswith("running_var"):
                buffer -= 1e-3 - 1e-5
        assert (model(pixels).logits - expected).norm() > 0.1 * expected.norm()


def test_weights_of_tensorflow_js_span_shards():
    a, b = np.arange(6, dtype="<f4").reshape(2, 3), np.arange(4, dtype="<f4")
    content = a.tobytes() + b.tobytes()
    listed = [
        {"name": "a", "shape": [2, 3], "dtype": "float32"},
        {"name": "b", "shape": [4], "dtype": "float32"},
        {"name": "scalar", "shape": [], "dtype": "float32"},
    ]
    files = {
        "p/model.json": json.dumps({"weightsManifest": [{"paths": ["one", "two"], "weights": listed}]}).encode(),
        "p/one": content[:10],
        "p/two": content[10:] + np.float32(7).tobytes(),
    }
    found = read_tensorflow_js(files, "p/")
    np.testing.assert_array_equal(found["a"], a)
    np.testing.assert_array_equal(found["b"], b)
    assert found["scalar"] == 7
    listed[1]["dtype"] = "uint8"
    files["p/model.json"] = json.dumps(
        {"weightsManifest": [{"paths": ["one", "two"], "weights": listed}]}
    ).encode()
    with pytest.raises(DamagedError, match="b is uint8 or quantised; expected float32"):
        read_tensorflow_js(files, "p/")
