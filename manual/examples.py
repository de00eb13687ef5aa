"""The verbs of the command line by purpose, with examples of each; the tests parse all examples."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chapter:
    """Verbs in the order in which they are listed."""

    title: str
    verbs: tuple[str, ...]


CHAPTERS = (
    Chapter("Survey and measure", ("survey", "measure", "merge", "batches", "sets", "what-if")),
    Chapter("Vector stores", ("store",)),
    Chapter("Look at surveys", ("show", "report", "view", "export", "compare", "check")),
    Chapter("Checkpoints of one model", ("dynamics",)),
    Chapter(
        "Laboratories",
        ("weights", "probe", "trace", "groups", "contrast", "clouds", "bridge", "block", "cautions"),
    ),
    Chapter("Figures of the papers", ("exhibits", "exhibit", "reproduce")),
    Chapter("Lists", ("models", "corpora", "measures")),
)

EXAMPLES: dict[str, tuple[str, ...]] = {
    "survey": (
        "theodolite survey minilm-l6 --corpus chitchat --limit 100 --out first",
        "theodolite survey ./my-model --corpus 'texts/*.jsonl.gz' --field body --units word --out mine",
        "theodolite survey whisper-tiny-en --corpus speech --out heard",
        "theodolite survey my-model --corpus big.parquet --part 0/4 --out part-0",
        "theodolite survey my-model --corpus big.parquet --part 1/4 --pilot part-0 --out part-1",
    ),
    "measure": (
        "theodolite measure embeddings.npy",
        "theodolite measure embeddings.parquet --column vector --groups label --out store --json",
    ),
    "store": (
        "theodolite store embeddings.npy --out health",
        "theodolite store documents.parquet --queries queries.npy --text-column text --out health",
        "theodolite store today.parquet --against last-month.parquet --no-cost --out change",
        "theodolite store embeddings.npy --transform pca:128 --transform centre+pca:128+int8 --json",
        "theodolite store embeddings.npy --apply pca:128 --out smaller",
    ),
    "merge": ("theodolite merge part-0 part-1 part-2 part-3 --out whole",),
    "batches": ("theodolite batches first --count 10 --size 4096",),
    "sets": ("theodolite sets first --layer 3 --unit the --unit time",),
    "what-if": (
        "theodolite what-if first --remove 1 --remove 5 --out what-if.csv",
        "theodolite what-if first --layers -1 --population without-massive",
    ),
    "show": (
        "theodolite show first --population without-first",
        "theodolite show first --columns layer_name,mean_cosine,twonn",
    ),
    "report": (
        "theodolite report first --out first.html",
        "theodolite report first other --out both.html",
        "theodolite report first --format md --out first.md",
    ),
    "view": ("theodolite view first",),
    "export": (
        "theodolite export first --to embedding-atlas --layer -1 --out sample.parquet",
        "theodolite export first --to projector --out projector",
        "theodolite export first --to prometheus --measure mean_cosine --out theodolite.prom",
    ),
    "compare": (
        "theodolite compare first other --measure mean_cosine --measure twonn --out compare.png",
        "theodolite compare first other --out compare.csv",
    ),
    "check": (
        "theodolite check --init --baseline first --rules rules.toml",
        "theodolite check other --baseline first --rules rules.toml --junit check.xml --page check.html",
    ),
    "dynamics": (
        "theodolite dynamics mine --checkpoints 'runs/checkpoint-{step}' --corpus held-out.jsonl --out series",
        "theodolite dynamics EleutherAI/pythia-70m --revisions step1000,step2000 --corpus chitchat --out pythia",
    ),
    "weights": ("theodolite weights minilm-l6 --out weights",),
    "probe": (
        "theodolite probe minilm-l6 --words words.csv --layer table --layer -1 --out probed",
        "theodolite probe minilm-l6 --wordnet noun.animal,noun.food --out animals",
    ),
    "trace": (
        'theodolite trace minilm-l6 "The mouse was gone. The cat sat useless." '
        '"The mouse was gone. The computer sat useless." --token mouse --out mouse',
    ),
    "groups": ("theodolite groups minilm-l6 groups.json --out grouped",),
    "contrast": ("theodolite contrast minilm-l6 pairs.json --pooling first --out contrast",),
    "clouds": ("theodolite clouds minilm-l6 chitchat enwik8-clean --limit 300 --out clouds",),
    "bridge": (
        "theodolite bridge minilm-l6 smollm2-135m --corpus chitchat --limit 500 --out two",
        "theodolite bridge minilm-l6 --corpus chitchat --limit 500 --out layers",
        "theodolite bridge old-model new-model --corpus texts.jsonl --match document --layers -1 --out moved "
        "--save-map map.safetensors",
    ),
    "block": (
        "theodolite block --config bert-base --out untrained",
        "theodolite block smollm2-135m --layer 6 --survey first --inputs states --out trained",
    ),
    "cautions": ("theodolite cautions --out cautions",),
    "exhibits": ("theodolite exhibits",),
    "exhibit": (
        "theodolite exhibit norm-variance/fig4 first other --out fig4.pdf --data fig4.csv",
        "theodolite exhibit norm-variance first other --out figures",
        "theodolite exhibit norm-variance/fig22 first --layer 0 --layer 6 --out fig22.png",
    ),
    "reproduce": (
        "theodolite reproduce norm-variance --model minilm-l6 --model smollm2-135m --corpus chitchat --out again",
    ),
    "models": ("theodolite models",),
    "corpora": ("theodolite corpora",),
    "measures": ("theodolite measures", "theodolite measures --json"),
}

PAGES: dict[str, str] = {
    "survey": "survey-folder.md",
    "batches": "survey-folder.md#batchesparquet",
    "what-if": "what-if.md",
    "export": "export.md",
    "dynamics": "dynamics.md",
    "weights": "weights.md",
    "probe": "probe.md",
    "trace": "trace.md",
    "groups": "groups.md",
    "contrast": "contrast.md",
    "clouds": "clouds.md",
    "bridge": "bridge.md",
    "block": "block.md",
    "cautions": "cautions.md",
    "exhibits": "reference/exhibits.md",
    "exhibit": "reference/exhibits.md",
    "reproduce": "norm-variance.md",
    "models": "models.md",
    "measures": "measures.md",
}
"""The page in docs/ that explains a verb."""
