"""Which files a corpus is made of: a folder with all below it, one file, a glob, a name of the catalogue."""

import glob
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from theodolite.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: its word in the catalogue, and the endings by which it is known."""

    word: Literal["audio", "images"]
    endings: tuple[str, ...]

    def knows(self, path: Path) -> bool:
        """Tell whether the file's name has one of the endings, in capitals or not."""
        return path.name.lower().endswith(self.endings)


@dataclass(frozen=True, slots=True)
class MediaFile:
    """One file. `name` is its path below the corpus's folder, with "/" on every system; names order the files.

    `label` is the folder part of the name ("dogs" of "dogs/rex.png"), empty for a file that lies in no sub-folder.
    """

    path: Path
    name: str
    label: str


def find_media(
    what: str | Path, kind: Kind, progress: Callable[[str], None] | None = None
) -> tuple[MediaFile, ...]:
    """Return the files that a user's word for a corpus means, sorted by name, none of them opened yet."""
    path = Path(what).expanduser() if str(what).startswith("~/") else Path(what)
    if not path.exists() and isinstance(what, str) and what in _catalogue(kind):
        from theodolite.sources.catalogue import media_folder

        path = media_folder(what, kind.word, progress)
    if path.is_dir():
        return _files(_below(path, kind), path) or _raise(_none_in(path, kind))
    if path.is_file():
        return _files([_known(path, kind)], path.parent)
    if glob.has_magic(str(path)):
        return _matches(path, kind)
    raise _missing(path, kind)


def _below(folder: Path, kind: Kind) -> Iterator[Path]:
    """Yield the files of known endings in a folder and all below it, but nothing hidden and no linked folder."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (path for name in names if not name.startswith(".") and kind.knows(path := Path(place, name)))


def _matches(pattern: Path, kind: Kind) -> tuple[MediaFile, ...]:
    # Unlike Path.glob, this passes over hidden files.
    found = [path for path in map(Path, glob.glob(str(pattern), recursive=True)) if not path.is_dir()]  # noqa: PTH207
    if not found:
        raise InputError(
            f"CORPUS '{pattern}' matches no file; check the pattern (in a shell, put it in quotes) and the folder."
        )
    return _files((_known(path, kind) for path in found), _root(pattern))


def _root(pattern: Path) -> Path:
    """Return the folder above all that a pattern can match."""
    parts = pattern.parts[:-1]
    fixed = next((index for index, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return Path(*parts[:fixed])


def _files(paths: Iterator[Path] | list[Path], root: Path) -> tuple[MediaFile, ...]:
    files = []
    for path in paths:
        name = path.relative_to(root).as_posix()
        files.append(MediaFile(path, name, name.rpartition("/")[0]))
    return tuple(sorted(files, key=lambda file: file.name))


def _known(path: Path, kind: Kind) -> Path:
    if kind.knows(path):
        return path
    raise InputError(
        f"CORPUS '{path}' has an ending that is not known; for {kind.word} wanted one of "
        f"{', '.join(kind.endings)}: rename or convert the file, or narrow the glob."
    )


def _none_in(folder: Path, kind: Kind) -> InputError:
    return InputError(
        f"CORPUS '{folder}' has no {kind.word} in it or below it; wanted files ending in one of "
        f"{', '.join(kind.endings)}: check that it is the right folder."
    )


def _missing(path: Path, kind: Kind) -> InputError:
    names = _catalogue(kind)
    return InputError(
        f"CORPUS '{path}' is neither a folder, a file nor {kind.word} of the catalogue; give a folder of files "
        f"ending in one of {', '.join(kind.endings)}, one such file, a glob of these, or a name of the catalogue: "
        f"{', '.join(names)}.{nearest(path.name, names)}"
    )


def _raise(error: InputError) -> tuple[MediaFile, ...]:
    raise error


def _catalogue(kind: Kind) -> list[str]:
    from theodolite.sources.catalogue import corpora_of

    return sorted(corpora_of(kind.word))
