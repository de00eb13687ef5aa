"""Get one named file from a package index by reading its pages, so that nothing of the package ever runs.

pip cannot do this for a source distribution: `pip download` prepares its metadata, which runs the package's
build backend or its setup.py. The pages are those of the simple repository API (PEP 503), and find-links.
"""

import re
import shutil
import ssl
import urllib.request
from base64 import b64encode
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from theodolite.sources.catalogue.settings import PipSettings


class Unreachable(Exception):  # noqa: N818 -- never leaves the catalogue: `fetch` says it in a sentence
    """No place that was tried gave the file; the text says what each answered."""


def download(package: str, filename: str, target: Path, settings: PipSettings) -> None:
    """Write the file of that name to `target` from the first place that has it, else raise `Unreachable`."""
    opener = _opener(settings)
    answers = []
    for place, is_index in _places(package, settings):
        try:
            link = _find(opener, place, is_index, filename, settings.timeout)
            if link is None:
                answers.append(f"{_shown(place)} does not list {filename}")
                continue
            _save(opener, link, target, settings.timeout)
            return
        except (OSError, HTTPException, ValueError) as error:
            answers.append(f"{_shown(place)}: {error}")
    raise Unreachable("; ".join(answers) or "pip is configured with no index and no folder")


def _places(package: str, settings: PipSettings) -> list[tuple[str, bool]]:
    """Return the (address, is an index's page) to try, folders at hand first."""
    project = re.sub(r"[-_.]+", "-", package).lower()
    pages = [(f"{index.rstrip('/')}/{project}/", True) for index in settings.indexes]
    return [(link, False) for link in settings.find_links] + pages


def _find(
    opener: urllib.request.OpenerDirector, place: str, is_index: bool, filename: str, timeout: float
) -> str | None:
    """Return the address of the file, or None if this place does not list it."""
    folder = _local(place)
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
    """Return the request; a password in the address becomes a header that no redirect carries on."""
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
    """Return the link with the page's name and password, if it leads to the same host."""
    credentials, bare = _split_credentials(page)
    parts = urlsplit(link)
    if not credentials or parts.netloc != urlsplit(bare).netloc:
        return link
    return urlunsplit(parts._replace(netloc=f"{credentials}@{parts.netloc}"))


def _shown(address: str) -> str:
    """Return the address as it may be shown: without a password."""
    return _split_credentials(address)[1]


def _local(place: str) -> Path | None:
    """Return the path of a file: address or a plain path, None for what lies on the network."""
    if place.startswith("file:"):
        return Path(urllib.request.url2pathname(urlsplit(place).path))
    return None if "://" in place else Path(place).expanduser()
