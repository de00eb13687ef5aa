"""Figures of studies as images of the page, which run no script and can be saved."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from theodolite.errors import InputError
from theodolite.escaping import escape_html

ENDINGS = {"image/svg+xml": "svg", "image/png": "png"}
MOST = 3_000_000
"""The most characters of the page that all pictures together may take."""


@dataclass(frozen=True)
class Picture:
    """A figure of a study: title, caption, media type, the bytes of the file, and the width."""

    title: str
    caption: str
    media_type: str
    data: bytes
    width: int = 700  # in pixels of the page; the picture is never shown wider

    def __post_init__(self) -> None:
        if self.media_type not in ENDINGS:
            raise InputError(f"media_type: expected {' or '.join(ENDINGS)}, got {self.media_type!r}.")


def render_pictures(pictures: Sequence[Picture], most: int = MOST) -> str:
    """Return the pictures that fit, in their order, and the titles of those that do not; empty for no pictures."""
    if not pictures:
        return ""
    kept, omitted = split_by_size(pictures, most)
    figures = "".join(_render_picture(one) for one in kept)
    titles = ", ".join(one.title for one in omitted)
    note = (
        f'<p class="quiet">Omitted because the page would be too large: {escape_html(titles)}. '
        "Draw each with <code>theodolite exhibit</code>.</p>"
        if omitted
        else ""
    )
    return (
        '<section class="part" id="studies" aria-labelledby="studies-head"><h2 id="studies-head">Studies</h2>'
        '<p class="quiet">Figures of the studies in the given folders. Each can be saved.</p>'
        f'<div class="studies">{figures}</div>{note}</section>'
    )


def split_by_size(pictures: Sequence[Picture], most: int = MOST) -> tuple[list[Picture], list[Picture]]:
    """Return the first pictures that fit in `most` characters, and the others.

    >>> small, large = (Picture(name, "", "image/png", bytes(size)) for name, size in (("a", 30), ("b", 90)))
    >>> [[one.title for one in part] for part in split_by_size([small, large, small], 100)]
    [['a', 'a'], ['b']]
    """
    kept: list[Picture] = []
    omitted: list[Picture] = []
    used = 0
    for one in pictures:
        size = 4 * -(-len(one.data) // 3)
        fits = used + size <= most
        used += size if fits else 0
        (kept if fits else omitted).append(one)
    return kept, omitted


def _render_picture(one: Picture) -> str:
    # In an <img> an SVG runs no script and loads nothing. The page's script copies the source of the image to the
    # link, so that the page has the bytes once.
    source = f"data:{one.media_type};base64,{b64encode(one.data).decode('ascii')}"
    name = f"{_file_name(one.title)}.{ENDINGS[one.media_type]}"
    return (
        f'<figure class="study"><figcaption><b>{escape_html(one.title)}</b></figcaption>'
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape_html(one.title)}">'
        f'<img decoding="async" alt="{escape_html(one.title)}, described below" width="{one.width}" '
        f'src="{source}"></div>'
        f'<p class="caption">{escape_html(one.caption)} <a href="#studies" data-save="{escape_html(name)}">'
        f"Save as {ENDINGS[one.media_type]}</a></p></figure>"
    )


def _file_name(title: str) -> str:
    """Return a file name for a title.

    >>> _file_name("bert-spaces/fig1: The Hopf link")
    'bert-spaces-fig1-the-hopf-link'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "study"
