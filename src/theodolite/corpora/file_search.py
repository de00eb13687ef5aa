"""Find the files of a corpus: a path, a glob, a folder of media files or a name of the catalogue."""

import glob
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from theodolite.corpora.options import CorpusOptions
from theodolite.corpora.text_readers import read_jsonl, read_parquet, read_text
from theodolite.errors import InputError, nearest

Reader = Callable[[Path, CorpusOptions], Iterator[list[str | None]]]
READERS: dict[str, Reader] = {
    ".txt": read_text,
    ".txt.gz": read_text,
    ".jsonl": read_jsonl,
    ".jsonl.gz": read_jsonl,
    ".parquet": read_parquet,
}
_ENDINGS = ", ".join(READERS)
_SHOWN = 100  # characters of a path in an error


@dataclass(frozen=True, slots=True)
class MediaKind:
    """A kind of media file: its word in the catalogue and its file name endings."""

    word: Literal["audio", "images"]
    endings: tuple[str, ...]

    def matches(self, path: Path) -> bool:
        """Return whether the file name has one of the endings, in upper or lower case."""
        return path.name.lower().endswith(self.endings)


@dataclass(frozen=True, slots=True)
class MediaFile:
    """One file. `name` is its path below the corpus folder, with "/" on every system; files are sorted by name.

    `label` is the folder part of the name ("dogs" of "dogs/rex.png"), empty for a file in no sub-folder.
    """

    path: Path
    name: str
    label: str


def find_reader(path: Path) -> Reader | None:
    """Return the reader of text files with this name, or None if there is none."""
    name = path.name.lower()
    return next((reader for ending, reader in READERS.items() if name.endswith(ending)), None)


def is_missing(what: str | Path) -> bool:
    """Return whether a corpus is neither a path, nor a glob with matches, nor any name of the catalogue."""
    from theodolite.corpora.catalogue.entries import CORPORA

    path = _expand(what)
    if what in CORPORA or _exists(path):
        return False
    found = glob.iglob(str(path), recursive=True) if glob.has_magic(str(path)) else ()  # noqa: PTH207
    return all(Path(each).is_dir() for each in found)


def find_files(what: str | Path, progress: Callable[[str], None] | None = None) -> tuple[Path, ...]:
    """Return the text files of a corpus, checked to exist and to have a known ending."""
    path = _expand(what)
    if find_reader(path) is None and isinstance(what, str) and what in _catalogue_names("text"):
        from theodolite.corpora.catalogue.lookup import corpus_file

        return (corpus_file(what, progress),)
    if _exists(path):
        return (_check_text_file(path),)
    if glob.has_magic(str(path)):
        return tuple(_check_text_file(each) for each in sorted(_match(path), key=Path.as_posix))
    raise _missing_text(path)


def find_media(
    what: str | Path, kind: MediaKind, progress: Callable[[str], None] | None = None
) -> tuple[MediaFile, ...]:
    """Return the media files of a corpus, sorted by name, without opening any of them."""
    path = _expand(what)
    if not path.exists() and isinstance(what, str) and what in _catalogue_names(kind.word):
        from theodolite.corpora.catalogue.lookup import media_folder

        path = media_folder(what, kind.word, progress)
    if path.is_dir():
        files = _to_media_files(_walk(path, kind), path)
        if not files:
            raise InputError(
                f"CORPUS '{path}' contains no {kind.word}, nor do its sub-folders; expected files ending in one "
                f"of {', '.join(kind.endings)}: check that it is the right folder."
            )
        return files
    if path.is_file():
        return _to_media_files([_check_media_file(path, kind)], path.parent)
    if glob.has_magic(str(path)):
        return _to_media_files((_check_media_file(each, kind) for each in _match(path)), _fixed_folder(path))
    names = _catalogue_names(kind.word)
    raise InputError(
        f"CORPUS '{path}' is neither a folder, a file nor {kind.word} of the catalogue; give a folder of files "
        f"ending in one of {', '.join(kind.endings)}, one such file, a glob of these, or a name of the catalogue: "
        f"{', '.join(names)}.{nearest(path.name, names)}"
    )


def _expand(what: str | Path) -> Path:
    return Path(what).expanduser() if str(what).startswith("~/") else Path(what)


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (OSError, ValueError):  # a name that is too long or contains NUL
        return False
    return True


def _match(pattern: Path) -> list[Path]:
    """Return the files that a glob matches."""
    # Unlike Path.glob, this skips hidden files, such as the "._x.txt" that some systems put beside x.txt.
    found = [path for path in map(Path, glob.glob(str(pattern), recursive=True)) if not path.is_dir()]  # noqa: PTH207
    if not found:
        raise InputError(
            f"CORPUS '{pattern}' matches no file; check the pattern (in a shell, put it in quotes) and the folder."
        )
    return found


def _fixed_folder(pattern: Path) -> Path:
    """Return the folder above everything that a pattern can match."""
    parts = pattern.parts[:-1]
    fixed = next((index for index, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return Path(*parts[:fixed])


def _walk(folder: Path, kind: MediaKind) -> Iterator[Path]:
    """Yield the files of this kind in a folder and its sub-folders, except hidden ones and linked folders."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (path for name in names if not name.startswith(".") and kind.matches(path := Path(place, name)))


def _to_media_files(paths: Iterable[Path], root: Path) -> tuple[MediaFile, ...]:
    files = []
    for path in paths:
        name = path.relative_to(root).as_posix()
        files.append(MediaFile(path, name, name.rpartition("/")[0]))
    return tuple(sorted(files, key=lambda file: file.name))


def _check_text_file(path: Path) -> Path:
    """Return the path if it is a regular file with a known ending."""
    if path.is_dir():
        endings = {
            ending for name in _list_text_files(path) for ending in READERS if name.lower().endswith(ending)
        }
        pattern = path / f"*{min(endings, default='.txt')}"
        raise InputError(
            f"CORPUS requires files, but '{path}' is a folder; give a glob in quotes, such as '{pattern}'."
        )
    if find_reader(path) is None:
        raise _unknown_ending(path, "", _ENDINGS)
    if not path.is_file():
        raise InputError(
            f"CORPUS requires a regular file, because it is read more than once, but '{path}' is not one; "
            "save it to a file first."
        )
    return path


def _check_media_file(path: Path, kind: MediaKind) -> Path:
    if kind.matches(path):
        return path
    raise _unknown_ending(path, f" for {kind.word}", ", ".join(kind.endings))


def _unknown_ending(path: Path, purpose: str, endings: str) -> InputError:
    return InputError(
        f"CORPUS '{path}' has an unknown ending; expected one of {endings}{purpose}: "
        "rename or convert the file, or use a narrower glob."
    )


def _missing_text(path: Path) -> InputError:
    """Return the error for a path that is neither a file nor in the catalogue, with the nearest names of both."""
    name, names = str(path), _catalogue_names("text")
    if name in (*_catalogue_names("audio"), *_catalogue_names("images")):
        return InputError(
            f"CORPUS '{name}' contains no text, and this model reads text. Text corpora: {', '.join(names)}."
        )
    name = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."  # the user may have given a text and not a file
    return InputError(
        f"CORPUS '{name}' is neither a file nor a corpus of the catalogue; give a file ending in one of "
        f"{_ENDINGS}, a glob of these, or a name of the catalogue: {', '.join(names)}."
        f"{nearest(path.name, _list_text_files(path.parent) + names)}{_HINT if ' ' in name else ''}"
    )


_HINT = " From Python, a text itself is given in a list: [text]."


def _list_text_files(folder: Path) -> list[str]:
    """Return the names of the text files in a folder, or none if it cannot be listed."""
    try:
        return sorted(path.name for path in folder.iterdir() if find_reader(path))
    except (OSError, ValueError):
        return []


def _catalogue_names(kind: str) -> list[str]:
    from theodolite.corpora.catalogue.lookup import corpora_of

    return sorted(corpora_of(kind))
