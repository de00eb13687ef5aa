"""Datasets of the `datasets` library as corpora: hf:NAME, from the hub or a local folder, streamed."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.corpora.chat import write_conversation
from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.text_readers import missing_column, with_value
from theodolite.errors import InputError, OfflineError, TheodoliteError, first_line, nearest

PREFIX = "hf:"
ROWS = 128
_FORM = "hf:NAME[@REVISION][:CONFIG][:SPLIT]"
_SAVED = ("state.json", "dataset_dict.json")  # what Dataset.save_to_disk and DatasetDict.save_to_disk write


@dataclass(frozen=True, slots=True)
class DatasetName:
    """A dataset, its config and split; on the hub also the commit, so that every pass reads the same rows."""

    path: str
    config: str | None = None
    split: str | None = None
    revision: str | None = None

    @property
    def local(self) -> bool:
        """True for a local folder."""
        return Path(self.path).exists()

    @property
    def saved(self) -> bool:
        """True for a folder that save_to_disk wrote."""
        return any((Path(self.path) / name).is_file() for name in _SAVED)


def is_dataset(what: object) -> bool:
    """Return whether a corpus is given as hf:NAME."""
    return isinstance(what, str) and what.startswith(PREFIX)


def parse(what: str) -> DatasetName:
    """Read hf:NAME[@REVISION][:CONFIG][:SPLIT]; a single word after NAME is stored as the config.

    >>> parse("hf:org/name@v1::test")
    DatasetName(path='org/name', config=None, split='test', revision='v1')
    """
    name, *more = what.removeprefix(PREFIX).split(":")
    path, _, revision = name.partition("@")
    if not path or len(more) > 2:
        raise InputError(
            f"CORPUS {what!r} is not of the form {_FORM}, such as hf:stanfordnlp/imdb:plain_text:test."
        )
    config, split = [*more, "", ""][:2]
    return DatasetName(path, config or None, split or None, revision or None)


def find_dataset(what: str) -> DatasetName:
    """Return the config and split at one commit; raise with a list of the choices if they are ambiguous."""
    require_datasets(what)
    name = parse(what)
    if not name.local:
        name = DatasetName(name.path, name.config, name.split, _commit(name, what))
    with _blame_dataset(what):
        return _choose(name, what)


def read_dataset(name: DatasetName, options: CorpusOptions) -> Iterator[list[str | None]]:
    """Yield the texts of the column in blocks; a null is None. Streamed: nothing is stored on disk."""
    what = f"{PREFIX}{name.path}"
    with _blame_dataset(what):
        rows = load_rows(name)
        for block in rows.iter(batch_size=ROWS):
            column = options.find_column(block)
            if column not in block:
                raise missing_column(what, column, list(block))
            if options.chat:
                texts = [write_conversation(value, what, f"--column '{column}'") for value in block[column]]
            else:
                texts = [_text(value, what, column) for value in block[column]]
            values = block.get(options.by, [None] * len(texts))
            yield [with_value(text, value, options) for text, value in zip(texts, values, strict=True)]


def list_columns(name: DatasetName) -> list[str]:
    """Return the names of the columns."""
    with _blame_dataset(f"{PREFIX}{name.path}"):
        return list(next(iter(load_rows(name).iter(batch_size=1)), {}))


def require_datasets(what: str) -> None:
    """Raise unless the library is installed."""
    if importlib.util.find_spec("datasets") is None:
        raise TheodoliteError(
            f"Reading {what!r} requires the datasets library: pip install 'theodolite[datasets]'"
        )


def _commit(name: DatasetName, what: str) -> str:
    """Return the commit that the name refers to now."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return str(HfApi().dataset_info(name.path, revision=name.revision).sha)
    except (HfHubHTTPError, ValueError) as error:
        raise InputError(
            f"CORPUS {what!r}: the hub has no such dataset, or it is not accessible ({_line(error)}); check the "
            "name, log in if it is gated, or give a local folder."
        ) from error
    except Exception as error:  # a broken connection has many types, none of them public
        raise OfflineError(
            f"CORPUS {what!r} is not a local folder, and the hub could not be reached ({_line(error)}); "
            "give a folder, or try again with a connection."
        ) from error


def _choose(name: DatasetName, what: str) -> DatasetName:
    import datasets

    config, split = name.config, name.split
    if not name.saved:
        configs = datasets.get_dataset_config_names(name.path, revision=name.revision)
        if split is None and config is not None and config not in configs:  # the single word was the split
            config, split = None, config
        config = _choose_one(config, configs, f"CORPUS {what!r} requires a config")
        splits = datasets.get_dataset_split_names(name.path, config, revision=name.revision)
    else:
        saved = datasets.load_from_disk(name.path)
        splits = list(saved) if isinstance(saved, datasets.DatasetDict) else []
        config, split = None, split or config
    if splits or split:
        split = _choose_one(split, splits, f"CORPUS {what!r} requires a split")
    return DatasetName(name.path, config, split, name.revision)


def _choose_one(given: str | None, choices: list[str], requirement: str) -> str:
    """Return the given choice, or the only one."""
    if given in choices or (given is None and len(choices) == 1):
        return given or choices[0]
    got = "none" if given is None else repr(given)
    raise InputError(
        f"{requirement} (choices: {', '.join(choices) or 'none'}; got {got}); give {_FORM}."
        f"{nearest(given or '', choices)}"
    )


def load_rows(name: DatasetName) -> Any:
    """Return the rows: streamed, or as they lie in a folder of save_to_disk."""
    import datasets

    if name.saved:
        saved = datasets.load_from_disk(name.path)
        return saved[name.split] if name.split else saved
    return datasets.load_dataset(name.path, name.config, split=name.split, revision=name.revision, streaming=True)


def _text(value: object, what: str, column: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise InputError(
        f"--column '{column}' requires strings, but in {what} it holds values of type {type(value).__name__}; "
        "name a column that holds text."
    )


@contextmanager
def _blame_dataset(what: str) -> Iterator[None]:
    """Raise errors of the library as errors that name the dataset."""
    try:
        yield
    except TheodoliteError:
        raise
    except ConnectionError as error:
        raise OfflineError(f"CORPUS {what!r}: the hub could not be reached ({_line(error)}).") from error
    except (OSError, ValueError, RuntimeError) as error:  # what a builder may raise for files that it cannot read
        raise InputError(f"CORPUS {what!r} could not be read by the datasets library ({_line(error)}).") from error


def _line(error: Exception) -> str:
    return first_line(error).rstrip(".")
