"""Cut a gzipped Wikipedia dump into pages, as a stream."""

import gzip
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import unescape

from theodolite.sources.catalogue.archive import each_member
from theodolite.sources.catalogue.cache import Facts
from theodolite.sources.catalogue.corpora import write_documents

_TEXT = re.compile(rb"<text\b[^>]*(?<!/)>(.*?)</text>", re.DOTALL)


def unpack_wiki(archive: Path, member: str, made: Path) -> Facts:
    """One document a page: the markup inside its text element. Memory is that of the longest page."""
    count = 0
    read = 0

    def counted(lines: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal read
        for line in lines:
            read += len(line)
            yield line

    for _, stream in each_member(archive, member):
        with gzip.open(stream) as dump:
            count = write_documents(page_texts(counted(dump)), made)
    return {"documents": count, "bytes_read": read}


def page_texts(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the text of each page that has one; a page that the dump's end cuts off is left out.

    >>> list(page_texts([b"<page>", b"<text>a &lt;b&gt;</text>", b"</page>", b"<page>", b"<text>cut"]))
    ['a <b>']
    """
    page: list[bytes] = []
    for line in lines:
        mark = line.strip()
        if mark == b"<page>":
            page = []
        page.append(line)
        if mark == b"</page>":
            found = _TEXT.search(b"".join(page))
            page = []
            text = unescape(found[1].decode("utf-8"), {"&quot;": '"'}) if found else ""
            if text.strip():
                yield text
