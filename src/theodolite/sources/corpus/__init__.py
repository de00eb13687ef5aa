"""Corpora: where documents are found, how they are read, which are kept, and in which shards they travel."""

from theodolite.sources.corpus.corpus import Corpus, open_corpus
from theodolite.sources.corpus.options import CorpusOptions
from theodolite.sources.corpus.scanning import Scan, scan
from theodolite.sources.corpus.shards import Shard, shard_documents

__all__ = ["Corpus", "CorpusOptions", "Scan", "Shard", "open_corpus", "scan", "shard_documents"]
