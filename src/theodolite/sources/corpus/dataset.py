"""Datasets of the `datasets` library as corpora: hf:NAME, from the hub or from a folder, streamed."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, OfflineError, TheodoliteError, first_line, nearest
from theodolite.sources.corpus.options import CorpusOptions

PREFIX = "hf:"
ROWS = 128
_FORM = "hf:NAME[@REVISION][:CONFIG][:SPLIT]"
_SAVED = ("state.json", "dataset_dict.json")  # what Dataset.save_to_disk and DatasetDict.save_to_disk leave


@dataclass(frozen=True, slots=True)
class DatasetName:
    """Which rows are meant; a name on the hub carries the commit, so that every reading gives the same ones."""

    path: str
    config: str | None = None
    split: str | None = None
    revision: str | None = None

    @property
    def local(self) -> bool:
        """True for a folder of this machine."""
        return Path(self.path).exists()

    @property
    def saved(self) -> bool:
        """True for a folder that save_to_disk wrote."""
        return any((Path(self.path) / name).is_file() for name in _SAVED)


def is_dataset(what: object) -> bool:
    """Tell whether the user means a dataset."""
    return isinstance(what, str) and what.startswith(PREFIX)


def parse(what: str) -> DatasetName:
    """Read hf:NAME[@REVISION][:CONFIG][:SPLIT]; a single word after NAME is put down as the config for now.

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
    """Return the one config and split, at one commit, that the user's word means, or say what there is."""
    need_datasets(what)
    name = parse(what)
    if not name.local:
        name = DatasetName(name.path, name.config, name.split, _commit(name, what))
    with _fault_told(what):
        return _chosen(name, what)


def read_dataset(name: DatasetName, options: CorpusOptions) -> Iterator[list[str | None]]:
    """Yield the column's texts, some hundreds at a time; a null is None. Streamed: nothing is kept on the disk."""
    what = f"{PREFIX}{name.path}"
    with _fault_told(what):
        rows = _rows(name)
        for block in rows.iter(batch_size=ROWS):
            if options.column not in block:
                raise _lacking(what, options.column, list(block))
            yield [_text(value, what, options.column) for value in block[options.column]]


def need_datasets(what: str) -> None:
    """Raise unless the library is installed."""
    if importlib.util.find_spec("datasets") is None:
        raise TheodoliteError(f"Reading {what!r} needs the datasets library: pip install 'theodolite[datasets]'")


def _commit(name: DatasetName, what: str) -> str:
    """Return the commit that the name stands for now."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return str(HfApi().dataset_info(name.path, revision=name.revision).sha)
    except (HfHubHTTPError, ValueError) as error:
        raise InputError(
            f"CORPUS {what!r}: the hub has no such dataset or does not show it ({_line(error)}); check the name, "
            "log in if it is gated, or give a folder of this machine."
        ) from error
    except Exception as error:  # a broken connection has many types, none of them public
        raise OfflineError(
            f"CORPUS {what!r} is no folder of this machine, and the hub could not be reached ({_line(error)}); "
            "give a folder, or try again with a connection."
        ) from error


def _chosen(name: DatasetName, what: str) -> DatasetName:
    import datasets

    config, split = name.config, name.split
    if not name.saved:
        configs = datasets.get_dataset_config_names(name.path, revision=name.revision)
        if split is None and config is not None and config not in configs:  # the single word was the split
            config, split = None, config
        config = _one(config, configs, f"CORPUS {what!r} wants a config")
        splits = datasets.get_dataset_split_names(name.path, config, revision=name.revision)
    else:
        saved = datasets.load_from_disk(name.path)
        splits = list(saved) if isinstance(saved, datasets.DatasetDict) else []
        config, split = None, split or config
    if splits or split:
        split = _one(split, splits, f"CORPUS {what!r} wants a split")
    return DatasetName(name.path, config, split, name.revision)


def _one(wanted: str | None, there: list[str], wants: str) -> str:
    """Return the one that is wanted, or the only one."""
    if wanted in there or (wanted is None and len(there) == 1):
        return wanted or there[0]
    came = "none came" if wanted is None else f"{wanted!r} came"
    raise InputError(
        f"{wants}, of which it has {', '.join(there) or 'none'}, but {came}; give {_FORM}."
        f"{nearest(wanted or '', there)}"
    )


def _rows(name: DatasetName) -> Any:
    import datasets

    if name.saved:
        saved = datasets.load_from_disk(name.path)
        return saved[name.split] if name.split else saved
    return datasets.load_dataset(name.path, name.config, split=name.split, revision=name.revision, streaming=True)


def _text(value: object, what: str, column: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise InputError(
        f"--column '{column}' wants strings, but in {what} it holds values of type {type(value).__name__}; "
        "name a column that holds text."
    )


def _lacking(what: str, column: str, there: list[str]) -> InputError:
    return InputError(
        f"{what} has no column '{column}' (its columns: {', '.join(map(repr, there))}); "
        f"name the column that holds the text with --column.{nearest(column, there)}"
    )


@contextmanager
def _fault_told(what: str) -> Iterator[None]:
    """Say of what fails in the library that the dataset is at fault, or the way to it."""
    try:
        yield
    except TheodoliteError:
        raise
    except ConnectionError as error:
        raise OfflineError(f"CORPUS {what!r}: the hub could not be reached ({_line(error)}).") from error
    except (OSError, ValueError, RuntimeError) as error:  # what a builder may raise of files it cannot read
        raise InputError(f"CORPUS {what!r} could not be read by the datasets library ({_line(error)}).") from error


def _line(error: Exception) -> str:
    return first_line(error).rstrip(".")
