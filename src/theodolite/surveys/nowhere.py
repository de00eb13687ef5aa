"""A corpus that is nowhere is told before a cluster is joined and a model fetched."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from theodolite.sources import catalogue
from theodolite.sources.corpus import open_corpus
from theodolite.sources.corpus.dataset import is_dataset
from theodolite.sources.corpus.files import is_nowhere
from theodolite.sources.modality import Modality, modality
from theodolite.sources.text.checkpoint import resolve
from theodolite.surveys import media
from theodolite.surveys.listener import Listener
from theodolite.surveys.wanted import Wanted


def check_corpus(
    corpus: str | Path | Iterable[str], model: str, revision: str | None, wanted: Wanted, listener: Listener
) -> None:
    """Refuse a corpus that no model finds, in the words of this kind of model; one that is there is not read.

    Names of the catalogue and of datasets are left alone: what they stand for may have to be fetched.
    """
    if not isinstance(corpus, str | Path) or is_dataset(corpus) or not is_nowhere(corpus):
        return
    kind = _kind(model, revision, trust_remote_code=wanted.trust_remote_code)
    if kind == "text":
        open_corpus(corpus, wanted.text_options(), listener.say)
    else:
        media.opened(corpus, kind, wanted, listener)


def _kind(model: str, revision: str | None, *, trust_remote_code: bool) -> Modality:
    """Say what the model is fed, if that is known here; one that is yet to be fetched reads text, as most do."""
    if model in catalogue.MODELS:
        return catalogue.MODELS[model].kind
    folder = resolve(model).folder if Path(model).is_dir() else _from_hub_before(model, revision)
    return modality(folder, model, trust_remote_code=trust_remote_code) if folder else "text"


def _from_hub_before(model: str, revision: str | None) -> Path | None:
    """Return the folder of a hub's model in the hub's own cache, None if it is not there."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(model, "config.json", revision=revision)
    except HFValidationError:  # a file, or the name of nothing
        return None
    return Path(found).parent if isinstance(found, str) else None
