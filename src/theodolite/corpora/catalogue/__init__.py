"""The catalogue: models and corpora that come as data files of public packages, pinned by their sha256."""
