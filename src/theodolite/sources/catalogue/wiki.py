"""Cut a gzipped Wikipedia dump into pages, as a stream: as markup, or as the plain text of its articles."""

import gzip
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import unescape

from theodolite.sources.catalogue.archive import each_member
from theodolite.sources.catalogue.cache import Facts
from theodolite.sources.catalogue.corpora import write_documents
from theodolite.sources.catalogue.wikitext import is_article, plain_text

_TITLE = re.compile(rb"<title>(.*?)</title>", re.DOTALL)
_TEXT = re.compile(rb"<text\b[^>]*(?<!/)>(.*?)</text>", re.DOTALL)


def unpack_wiki(archive: Path, member: str, made: Path) -> Facts:
    """One document a page: the markup inside its text element. Memory is that of the longest page."""
    return _unpack(archive, member, made, page_texts)


def unpack_wiki_clean(archive: Path, member: str, made: Path) -> Facts:
    """One document an article: its plain text, where there is any. Memory is that of the longest page."""
    return _unpack(archive, member, made, article_texts)


def _unpack(archive: Path, member: str, made: Path, texts: Callable[[Iterable[bytes]], Iterator[str]]) -> Facts:
    count = 0
    read = 0

    def counted(lines: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal read
        for line in lines:
            read += len(line)
            yield line

    for _, stream in each_member(archive, member):
        with gzip.open(stream) as dump:
            count = write_documents(texts(counted(dump)), made)
    return {"documents": count, "bytes_read": read}


def page_texts(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the text of each page that has one; a page that the dump's end cuts off is left out.

    >>> list(page_texts([b"<page>", b"<text>a &lt;b&gt;</text>", b"</page>", b"<page>", b"<text>cut"]))
    ['a <b>']
    """
    return (text for _, text in pages(lines))


def article_texts(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the plain text of each article; redirects, other namespaces and what has no words are left out.

    >>> page = [b"<page>", b"<title>Ant</title>", b"<text>An '''ant'''.{{stub}}</text>", b"</page>"]
    >>> list(article_texts(page))
    ['An ant.']
    """
    return filter(None, (plain_text(text) for title, text in pages(lines) if is_article(title, text)))


def pages(lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Yield (title, markup) of each whole page that has any markup."""
    page: list[bytes] = []
    for line in lines:
        mark = line.strip()
        if mark == b"<page>":
            page = []
        page.append(line)
        if mark == b"</page>":
            whole = b"".join(page)
            page = []
            text = _inside(_TEXT, whole)
            if text.strip():
                yield _inside(_TITLE, whole), text


def _inside(element: re.Pattern[bytes], page: bytes) -> str:
    found = element.search(page)
    return unescape(found[1].decode("utf-8"), {"&quot;": '"'}) if found else ""
