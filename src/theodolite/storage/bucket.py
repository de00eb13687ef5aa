"""Folders in object storage: the methods of a path that surveys need, for every protocol that fsspec supports.

A store writes single objects atomically, lists and deletes. It cannot rename or lock, so something that consists
of several objects is valid only once its last object is written.
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
    """A folder or an object, by its address. Credentials are those of the machine that uses it."""

    url: str  # s3://bucket/folder, without a trailing slash

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
        """Return itself: an address is the same everywhere."""
        return self

    def is_file(self) -> bool:
        """Return whether there is an object of this name; a store that does not answer is an error."""
        return self._kind() == "file"

    def is_dir(self) -> bool:
        """Return whether there are objects under this name."""
        return self._kind() == "directory"

    def iterdir(self) -> list[Bucket]:
        """Return what is directly under this name."""
        with self._translate_errors():
            try:
                found = self._store.ls(self._key, detail=False)
            except FileNotFoundError:
                return []
        names = {key.rstrip("/").rpartition("/")[2] for key in found if key.rstrip("/") != self._key.rstrip("/")}
        return [self / name for name in sorted(names)]

    def below(self) -> list[str]:
        """Return the relative names of all objects under this name, at any depth."""
        with self._translate_errors():
            found = self._store.find(self._key)
        return sorted(key[len(self._key) :].lstrip("/") for key in found)

    def read_text(self, encoding: str = "utf-8") -> str:
        """Read the object; FileNotFoundError if there is none."""
        return self.read_bytes().decode(encoding)

    def read_bytes(self, start: int | None = None, stop: int | None = None) -> bytes:
        """Read the object or a part of it."""
        with self._translate_errors():
            return bytes(self._store.cat_file(self._key, start=start, end=stop))

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Write the object, replacing an existing one."""
        with self._translate_errors(writing=True):
            self._store.pipe_file(self._key, text.encode(encoding))

    def touch(self) -> None:
        """Write an object that only has to exist."""
        self.write_text("exists\n")

    def create(self, text: str) -> bool:
        """Write the object unless it exists; return whether it was written."""
        try:
            with self._translate_errors(writing=True):
                self._store.pipe_file(self._key, text.encode(), mode="create")
        except FileExistsError:
            return False
        return True

    def put(self, file: Path) -> None:
        """Upload a file as this object."""
        with self._translate_errors(writing=True):
            self._store.put_file(str(file), self._key)

    def put_all(self, folder: Path, names: list[str]) -> None:
        """Upload files of a folder under this name, in order."""
        for name in names:
            (self / name).put(folder / name)

    def get(self, file: Path) -> None:
        """Download the object atomically."""
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}.part")
        try:
            with self._translate_errors():
                self._store.get_file(self._key, str(part))
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)

    def copy(self, to: Bucket) -> None:
        """Copy the object within the store."""
        with self._translate_errors(writing=True):
            self._store.cp_file(self._key, to._key)

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object."""
        if not missing_ok and not self.is_file():
            raise FileNotFoundError(self.url)
        with self._translate_errors(), suppress(FileNotFoundError):
            self._store.rm_file(self._key)

    def rmtree(self) -> None:
        """Delete every object under this name."""
        keys = [f"{self._key}/{name}" for name in self.below()]
        if keys:
            with self._translate_errors(), suppress(FileNotFoundError):
                self._store.rm(keys)

    def check(self) -> None:
        """Reject an address whose protocol no installed package supports."""
        from fsspec.registry import get_filesystem_class, known_implementations

        protocol = self.url.partition("://")[0]
        try:
            get_filesystem_class(protocol)
        except ImportError:
            package = known_implementations[protocol]["class"].partition(".")[0]
            raise InputError(f"{self} requires a package that is not installed: pip install {package}") from None
        except ValueError:
            raise InputError(
                f"{self}: {protocol}:// is not a known kind of storage. Give a folder, or an address such as "
                "s3://BUCKET/FOLDER, gs://... or az://..."
            ) from None

    def _kind(self) -> str | None:
        with self._translate_errors():
            try:
                return str(self._store.info(self._key)["type"])
            except FileNotFoundError:
                return None

    @property
    def _store(self) -> Any:
        return self._resolve()[0]

    @property
    def _key(self) -> str:
        return str(self._resolve()[1])

    def _resolve(self) -> tuple[Any, str]:
        """Return fsspec's file system and key. Listings are not cached, because other machines write there too."""
        import fsspec

        self.check()
        url_to_fs: Callable[..., tuple[Any, str]] = fsspec.core.url_to_fs
        return url_to_fs(self.url, use_listings_cache=False)

    @contextmanager
    def _translate_errors(self, *, writing: bool = False) -> Iterator[None]:
        """Turn the various errors of storage packages into one sentence."""
        try:
            yield
        except (TheodoliteError, FileExistsError):
            raise
        except FileNotFoundError as error:
            if writing:
                raise TheodoliteError(f"{self} cannot be written: the bucket does not exist.") from error
            raise
        except Exception as error:
            done = "written" if writing else "reached"
            raise TheodoliteError(f"{self} cannot be {done}: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    line = first_line(error).rstrip(".")
    if "credential" in type(error).__name__.lower():
        return f"no credentials were found in the usual places of its tools ({line})"
    if isinstance(error, PermissionError):
        return f"permission denied ({line})"
    return f"{type(error).__name__}: {line}"
