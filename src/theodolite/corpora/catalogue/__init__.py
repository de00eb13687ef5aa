"""The catalogue: models, corpora and vectors that come as data files of public packages, pinned by their sha256."""
