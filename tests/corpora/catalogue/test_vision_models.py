"""The vision models of the real catalogue: converted weights give the numbers of the originals."""

import numpy as np
import pytest
import torch

from theodolite.corpora.catalogue.archive import copy_members
from theodolite.corpora.catalogue.download import download_entry
from theodolite.corpora.catalogue.entries import CORPORA, MODELS
from theodolite.corpora.catalogue.lookup import media_folder, model_folder
from theodolite.corpora.image_corpus import open_images, read_picture, scan_images

pytestmark = [pytest.mark.weights, pytest.mark.slow]

PICTURES = ("chelsea", "coffee", "astronaut")


def read_pictures():
    found = {picture.path.stem: picture for _, picture in scan_images(open_images("pictures")).pieces}
    return [read_picture(found[name]) for name in PICTURES]


def prepare(folder, pictures):
    from transformers import AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    return processor(pictures, return_tensors="pt").pixel_values


def add_outputs(model: bytes, names: list[str]) -> bytes:
    """Return an ONNX model that also outputs these values: protobuf merges a message that is appended."""

    def field(number: int, content: bytes) -> bytes:
        length, size = b"", len(content)
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    outputs = b"".join(field(12, field(1, name.encode())) for name in names)
    return model + field(7, outputs)


def test_dinov2_equals_the_onnx_runtime_at_every_block(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    from transformers import AutoModel

    entry = MODELS["dinov2-small-focus"]
    folder = model_folder(entry.name)
    file = tmp_path / "model.onnx"
    copy_members(download_entry(entry, tmp_path), {entry.member: file})
    names = [f"/backbone/encoder/layer.{block}/Add_1_output_0" for block in range(entry.layers)]
    names.append("/backbone/layernorm/Add_1_output_0")
    session = runtime.InferenceSession(add_outputs(file.read_bytes(), names), providers=["CPUExecutionProvider"])
    model = AutoModel.from_pretrained(folder).eval()
    assert (model.config.num_hidden_layers, model.config.hidden_size) == (entry.layers, entry.dim)
    pixels = prepare(folder, read_pictures())
    expected = session.run(names, {"input_image": pixels.numpy()})
    with torch.no_grad():
        found = model(pixels, output_hidden_states=True)
    states = [*found.hidden_states[1:], found.last_hidden_state]
    for name, ours, theirs in zip(names, states, expected, strict=True):
        # both are float32, summed in another order
        assert np.abs(ours.numpy() - theirs).max() <= 1e-5 * np.abs(theirs).max(), name
    assert np.abs(ours.numpy() - theirs).max() < 1e-4


def test_resnet_recognises_a_cat_and_an_espresso():
    from transformers import AutoModelForImageClassification

    folder = model_folder("resnet-50")
    model = AutoModelForImageClassification.from_pretrained(folder).eval()
    entry = MODELS["resnet-50"]
    assert (len(model.config.depths), model.config.hidden_sizes[-1]) == (entry.layers, entry.dim)
    with torch.no_grad():
        shares = model(prepare(folder, read_pictures())).logits.softmax(-1)
    cat, espresso = shares[0].max(0), shares[1].max(0)
    assert model.config.id2label[int(cat.indices)] == "Egyptian cat"
    assert cat.values > 0.9
    assert model.config.id2label[int(espresso.indices)] == "espresso"
    assert espresso.values > 0.95


@pytest.mark.parametrize(("name", "side"), [("fashion-mnist", 28), ("digits", 8)])
def test_labelled_pictures_belong_to_their_classes(name, side):
    found = scan_images(open_images(media_folder(name, "images")))
    assert found.documents == CORPORA[name].documents
    assert found.sorts == {f"{side}x{side}": found.documents}
    assert len(found.labels) == 10
    pictures = np.stack([np.asarray(read_picture(picture))[..., 0] for _, picture in found.pieces]).astype(float)
    labels = np.array([picture.label for _, picture in found.pieces])
    flat = pictures.reshape(len(labels), -1)
    # The nearest other picture is of the same class: 10% by chance.
    distances = np.square(flat).sum(1)[:, None] + np.square(flat).sum(1) - 2 * flat @ flat.T
    np.fill_diagonal(distances, np.inf)
    assert (labels[distances.argmin(1)] == labels).mean() > 0.7
    if name == "digits":
        middle = pictures[:, 3:5, 3:5].mean((1, 2))
        assert pictures.max() == 255
        assert middle[labels == "0"].mean() < 60  # a zero is empty in the middle, a one is not
        assert middle[labels == "1"].mean() > 180
    else:
        width = (pictures > 30).any(1).sum(1)
        assert width[labels == "trouser"].mean() < 16 < width[labels == "pullover"].mean()
        height = (pictures > 30).any(2).sum(1)
        assert height[labels == "sneaker"].mean() < height[labels == "ankle-boot"].mean() - 5
