"""The catalogue: models, corpora and vectors from data files of public packages, pinned by their sha256."""
