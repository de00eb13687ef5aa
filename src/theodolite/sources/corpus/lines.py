"""Lines of UTF-8 from plain and gzipped files, a block at a time."""

import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from theodolite.errors import InputError

BLOCK = 2**18
# How files begin that are no UTF-8 text at all; replacing their bytes would only hide it.
_FOREIGN = {
    b"\xff\xfe": ("UTF-16", "convert it to UTF-8"),
    b"\xfe\xff": ("UTF-16", "convert it to UTF-8"),
    b"\x1f\x8b": ("gzip", "give its name the ending .gz"),
}


def line_blocks(path: Path, errors: str, block: int = BLOCK) -> Iterator[tuple[int, list[str]]]:
    r"""Yield (number of the first line, lines) for stretches of whole lines, the numbers from 1.

    Only \n and \r\n end a line, and they are not part of it; what else Unicode calls a line end stays.
    Memory: a block of the file, or its longest line.
    """
    number = 1
    for offset, data in _whole_lines(path, block):
        text = _decode(data, errors, path, number, offset)
        lines = (text.replace("\r\n", "\n") if "\r" in text else text).split("\n")
        if data.endswith(b"\n"):
            lines.pop()
        yield number, lines
        number += len(lines)


def _whole_lines(path: Path, block: int) -> Iterator[tuple[int, bytes]]:
    """Yield (offset in the file, bytes), cut after a newline; a byte order mark is left out."""
    pending: list[bytes] = []
    with _opened(path) as stream:
        offset, chunk = _without_mark(stream.read(max(block, len(BOM_UTF8))), path)
        while chunk:
            cut = chunk.rfind(b"\n") + 1
            pending.append(chunk[:cut] if cut else chunk)
            if cut:
                data = b"".join(pending)
                yield offset, data
                offset += len(data)
                pending = [chunk[cut:]]
            chunk = stream.read(block)
    if rest := b"".join(pending):
        yield offset, rest


def _without_mark(start: bytes, path: Path) -> tuple[int, bytes]:
    """Return the offset and the bytes after a byte order mark; refuse what is clearly no UTF-8."""
    if foreign := _FOREIGN.get(start[:2]):
        kind, way_out = foreign
        raise InputError(f"CORPUS wants text in UTF-8, but '{path}' begins like a file in {kind}; {way_out}.")
    mark = len(BOM_UTF8) if start.startswith(BOM_UTF8) else 0
    return mark, start[mark:]


def _decode(data: bytes, errors: str, path: Path, line: int, offset: int) -> str:
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        unpacked = " once unpacked" if path.suffix.lower() == ".gz" else ""
        raise InputError(
            f"CORPUS wants text in UTF-8, but '{path}' has the byte 0x{data[error.start]:02x} in line {line}, at "
            f"byte offset {offset + error.start} of the file{unpacked}; mend it, or give "
            "--encoding-errors replace."
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacking it if its name ends in .gz; what fails while it is open is the file's fault."""
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as unpacked:
                yield cast(IO[bytes], unpacked)
        else:
            with path.open("rb") as plain:
                yield plain
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"CORPUS wants a whole gzip file, but '{path}' is damaged or cut short ({error}); "
            "fetch or pack it again."
        ) from error
    except OSError as error:
        raise InputError(
            f"CORPUS '{path}' could not be read ({error.strerror or error}); check the file and its permissions."
        ) from error
