"""theodolite.list_models, list_corpora and list_exhibits: what the names in commands and functions can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd  # slow to import, and the command line does without


def list_models() -> pd.DataFrame:
    """Return the models of the catalogue: `here` is whether one is cached, `folder` where.

    >>> import theodolite
    >>> theodolite.list_models().set_index("name").loc["minilm-l6", ["layers", "dim"]].tolist()
    [6, 384]
    """
    return _frame(model_rows())


def list_corpora() -> pd.DataFrame:
    """Return the corpora of the catalogue: `here` is whether one is cached."""
    return _frame(corpus_rows())


def list_exhibits() -> pd.DataFrame:
    """Return the figures and tables of papers that `theodolite.exhibit` draws, and what each needs."""
    return _frame(exhibit_rows())


def model_rows() -> list[dict[str, Any]]:
    """Return one row per model of the catalogue."""
    from theodolite.corpora.catalogue.entries import MODELS
    from theodolite.corpora.catalogue.lookup import entry_folder, is_cached

    return [
        {
            "name": entry.name,
            "kind": entry.kind,
            "layers": entry.layers,
            "dim": entry.dim,
            "vocabulary": entry.vocabulary,
            "MB": round(entry.size / 1e6),
            "here": is_cached(entry),
            "licence": entry.licence,
            "what": entry.description,
            "folder": str(entry_folder(entry)) if is_cached(entry) else None,
        }
        for entry in MODELS.values()
    ]


def corpus_rows() -> list[dict[str, Any]]:
    """Return one row per corpus of the catalogue."""
    from theodolite.corpora.catalogue.entries import CORPORA
    from theodolite.corpora.catalogue.lookup import is_cached

    return [
        {
            "name": entry.name,
            "kind": entry.kind,
            "documents": entry.documents,
            "MB": round(entry.fetched / 1e6),
            "here": is_cached(entry),
            "licence": entry.licence,
            "what": entry.description,
        }
        for entry in CORPORA.values()
    ]


def exhibit_rows() -> list[dict[str, Any]]:
    """Return one row per exhibit."""
    from theodolite.exhibits.registry import all_exhibits

    return [
        {
            "name": exhibit.name,
            "paper": exhibit.paper,
            "id": exhibit.id,
            "kind": exhibit.kind,
            "title": exhibit.title,
            "needs": exhibit.needed,
            "options": [
                f"--{option.removesuffix('s') if option == 'layers' else option}" for option in exhibit.options
            ],
        }
        for exhibit in all_exhibits().values()
    ]


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows).convert_dtypes()
