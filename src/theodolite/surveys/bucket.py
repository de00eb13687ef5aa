"""A folder in object storage: what of a path's ways a survey needs, over whatever fsspec reaches.

A store puts one object at a time, whole or not at all, lists and deletes. It renames nothing and locks nothing, so
what takes several objects counts only by the one that is put last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.errors import InputError, TheodoliteError, first_line


@dataclass(frozen=True, order=True)
class Bucket:
    """A folder or an object, by its address; it travels to other machines as that, and each has its own keys."""

    url: str  # s3://bucket/folder, without a slash at its end

    def __truediv__(self, name: str) -> Bucket:
        return Bucket(f"{self.url}/{name}")

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> Bucket:
        """The address without its last part."""
        return Bucket(self.url.rpartition("/")[0])

    def absolute(self) -> Bucket:
        """Return itself: an address is the same wherever it is read."""
        return self

    def is_file(self) -> bool:
        """Say whether there is an object of this name. That nobody answers is an error: it is not a no."""
        return self._kind() == "file"

    def is_dir(self) -> bool:
        """Say whether there are objects under this name."""
        return self._kind() == "directory"

    def iterdir(self) -> list[Bucket]:
        """Return what is directly under this name."""
        with self._speaking():
            try:
                found = self._store.ls(self._key, detail=False)
            except FileNotFoundError:
                return []
        names = {key.rstrip("/").rpartition("/")[2] for key in found if key.rstrip("/") != self._key.rstrip("/")}
        return [self / name for name in sorted(names)]

    def below(self) -> list[str]:
        """Return every object under this name, at any depth, as what its address adds to this one."""
        with self._speaking():
            found = self._store.find(self._key)
        return sorted(key[len(self._key) :].lstrip("/") for key in found)

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read the object; FileNotFoundError if there is none."""
        return self.read_bytes().decode(encoding)

    def read_bytes(self, start: int | None = None, stop: int | None = None) -> bytes:
        """Read the object or a part of it."""
        with self._speaking():
            return bytes(self._store.cat_file(self._key, start=start, end=stop))

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Put the object in place of one that was there."""
        with self._speaking(writing=True):
            self._store.pipe_file(self._key, text.encode(encoding))

    def touch(self) -> None:
        """Put an object that only has to be there."""
        self.write_text("here\n")

    def create(self, text: str) -> bool:
        """Put the object if there is none; say whether that was so."""
        try:
            with self._speaking(writing=True):
                self._store.pipe_file(self._key, text.encode(), mode="create")
        except FileExistsError:
            return False
        return True

    def put(self, file: Path) -> None:
        """Upload a file as this object."""
        with self._speaking(writing=True):
            self._store.put_file(str(file), self._key)

    def put_all(self, folder: Path, names: list[str]) -> None:
        """Upload files of a folder under this name, one after the other: the last one makes the rest count."""
        for name in names:
            (self / name).put(folder / name)

    def get(self, file: Path) -> None:
        """Download the object; the file is there whole or not at all."""
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.part")
        try:
            with self._speaking():
                self._store.get_file(self._key, str(part))
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)

    def copy(self, to: Bucket) -> None:
        """Copy the object within the store."""
        with self._speaking(writing=True):
            self._store.cp_file(self._key, to._key)

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object."""
        if not missing_ok and not self.is_file():
            raise FileNotFoundError(self.url)
        with self._speaking(), suppress(FileNotFoundError):
            self._store.rm_file(self._key)

    def rmtree(self) -> None:
        """Delete every object under this name."""
        keys = [f"{self._key}/{name}" for name in self.below()]
        if keys:
            with self._speaking(), suppress(FileNotFoundError):
                self._store.rm(keys)

    def check(self) -> None:
        """Refuse an address whose protocol nothing here speaks."""
        from fsspec.registry import get_filesystem_class, known_implementations

        protocol = self.url.partition("://")[0]
        try:
            get_filesystem_class(protocol)
        except ImportError:
            package = known_implementations[protocol]["class"].partition(".")[0]
            raise InputError(f"{self} needs a package that is missing: pip install {package}") from None
        except ValueError:
            raise InputError(
                f"{self}: {protocol}:// is no kind of storage that is known here; wanted a folder, or an address "
                "such as s3://BUCKET/FOLDER, gs://... or az://..."
            ) from None

    def _kind(self) -> str | None:
        with self._speaking():
            try:
                return str(self._store.info(self._key)["type"])
            except FileNotFoundError:
                return None

    @property
    def _store(self) -> Any:
        return self._reached()[0]

    @property
    def _key(self) -> str:
        return str(self._reached()[1])

    def _reached(self) -> tuple[Any, str]:
        """Return fsspec's own view. No list is remembered: other machines write there too."""
        import fsspec

        self.check()
        reach: Callable[..., tuple[Any, str]] = fsspec.core.url_to_fs
        return reach(self.url, use_listings_cache=False)

    @contextmanager
    def _speaking(self, *, writing: bool = False) -> Iterator[None]:
        """Put what a store's package raises, whatever kinds it has, into one sentence."""
        try:
            yield
        except (TheodoliteError, FileExistsError):
            raise
        except FileNotFoundError as error:
            if writing:
                raise TheodoliteError(f"{self} cannot be written: there is no such bucket.") from error
            raise
        except Exception as error:
            done = "written" if writing else "reached"
            raise TheodoliteError(f"{self} cannot be {done}: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    line = first_line(error).rstrip(".")
    if "credential" in type(error).__name__.lower():
        return f"no credentials were found where its own tools look for them ({line})"
    if isinstance(error, PermissionError):
        return f"there is no permission ({line})"
    return f"{type(error).__name__}: {line}"
