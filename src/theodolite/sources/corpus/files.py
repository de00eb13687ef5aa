"""Which files a corpus is made of: endings, globs, the catalogue."""

import glob
from collections.abc import Callable, Iterator
from pathlib import Path

from theodolite.errors import InputError, nearest
from theodolite.sources.corpus.jsonl import read_jsonl
from theodolite.sources.corpus.options import CorpusOptions
from theodolite.sources.corpus.parquet import read_parquet
from theodolite.sources.corpus.text import read_text

Reader = Callable[[Path, CorpusOptions], Iterator[list[str | None]]]
READERS: dict[str, Reader] = {
    ".txt": read_text,
    ".txt.gz": read_text,
    ".jsonl": read_jsonl,
    ".jsonl.gz": read_jsonl,
    ".parquet": read_parquet,
}
_ENDINGS = ", ".join(READERS)
_SHOWN = 100


def reader_of(path: Path) -> Reader | None:
    """Return what reads a file of that name, None if nothing does."""
    name = path.name.lower()
    return next((reader for ending, reader in READERS.items() if name.endswith(ending)), None)


def is_nowhere(what: str | Path) -> bool:
    """Say whether no model of any kind finds a file by that word: no path, no glob's, no name of the catalogue."""
    from theodolite.sources.catalogue import CORPORA

    path = _path(what)
    if what in CORPORA or _there(path):
        return False
    found = glob.iglob(str(path), recursive=True) if glob.has_magic(str(path)) else ()  # noqa: PTH207
    return all(Path(each).is_dir() for each in found)


def find_files(what: str | Path, progress: Callable[[str], None] | None = None) -> tuple[Path, ...]:
    """Return the files that a user's word for a corpus means, every one there and of a known ending."""
    path = _path(what)
    if reader_of(path) is None and _in_catalogue(what):
        from theodolite.sources.catalogue import corpus_file

        return (corpus_file(str(what), progress),)
    if _there(path):
        return (_known(path),)
    if glob.has_magic(str(path)):
        return _matches(path)
    raise _missing(path)


def _path(what: str | Path) -> Path:
    return Path(what).expanduser() if str(what).startswith("~/") else Path(what)


def _matches(pattern: Path) -> tuple[Path, ...]:
    """Return the files that a glob matches, sorted by name alike on every system."""
    # Unlike Path.glob, this passes over hidden files, such as the "._x.txt" that some systems put beside x.txt.
    found = map(Path, glob.glob(str(pattern), recursive=True))  # noqa: PTH207
    files = sorted((path for path in found if not path.is_dir()), key=Path.as_posix)
    if not files:
        raise InputError(
            f"CORPUS '{pattern}' matches no file; check the pattern (in a shell, put it in quotes) and the folder."
        )
    return tuple(map(_known, files))


def _known(path: Path) -> Path:
    """Return the path if it is a file of a known ending."""
    if path.is_dir():
        raise _folder(path)
    if reader_of(path) is None:
        raise InputError(
            f"CORPUS '{path}' has an ending that is not known; wanted one of {_ENDINGS}: "
            "rename or convert the file, or narrow the glob."
        )
    if not path.is_file():
        raise InputError(
            f"CORPUS wants a regular file, as it is read more than once, but '{path}' is none; "
            "save it to a file first."
        )
    return path


def _folder(path: Path) -> InputError:
    endings = {ending for name in _files_in(path) for ending in READERS if name.lower().endswith(ending)}
    pattern = path / f"*{min(endings, default='.txt')}"
    return InputError(f"CORPUS wants files, but '{path}' is a folder; give a glob in quotes, such as '{pattern}'.")


def _missing(path: Path) -> InputError:
    """Return the error for what is neither a file nor in the catalogue, with the nearest names of both."""
    name, known = str(path), _files_in(path.parent) + _catalogue()
    name = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."  # a text may have come in place of its file
    return InputError(
        f"CORPUS '{name}' is neither a file nor a corpus of the catalogue; give a file ending in one of "
        f"{_ENDINGS}, a glob of these, or a name of the catalogue: {', '.join(_catalogue())}."
        f"{nearest(path.name, known)}"
    )


def _files_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder that a corpus could be, none where it cannot be listed."""
    try:
        return sorted(path.name for path in folder.iterdir() if reader_of(path))
    except (OSError, ValueError):
        return []


def _there(path: Path) -> bool:
    try:
        path.stat()
    except (OSError, ValueError):  # a name too long, or with a NUL in it, is the name of nothing
        return False
    return True


def _in_catalogue(what: str | Path) -> bool:
    return isinstance(what, str) and what in _catalogue()


def _catalogue() -> list[str]:
    from theodolite.sources.catalogue import corpora_of

    return sorted(corpora_of("text"))
