"""Pictures that were drawn elsewhere, as figures of the page: nothing in them can act, each can be saved."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from theodolite.errors import InputError
from theodolite.report.text import escape

ENDINGS = {"image/svg+xml": "svg", "image/png": "png"}
MOST = 3_000_000
"""Characters of the page that pictures may take in all."""


@dataclass(frozen=True)
class Picture:
    """A drawn study: its title, what it shows and after whom, the file itself (svg or png), its width."""

    title: str
    caption: str
    media_type: str
    data: bytes
    width: int = 700  # in the page's pixels; it is never shown wider

    def __post_init__(self) -> None:
        if self.media_type not in ENDINGS:
            raise InputError(f"media_type: wanted {' or '.join(ENDINGS)}; {self.media_type!r} came.")


def pictures_section(pictures: Sequence[Picture], most: int = MOST) -> str:
    """Return the pictures that fit, in their order, and a sentence on those left out; empty for none."""
    if not pictures:
        return ""
    kept, left_out = fitting(pictures, most)
    figures = "".join(_figure(one) for one in kept)
    titles = ", ".join(one.title for one in left_out)
    told = (
        f'<p class="quiet">Left out, as the page would be too large: {escape(titles)}. '
        "<code>theodolite exhibit</code> draws each alone.</p>"
        if left_out
        else ""
    )
    return (
        '<section class="part" id="studies" aria-labelledby="studies-head"><h2 id="studies-head">Studies</h2>'
        '<p class="quiet">Drawn from the folders that studies left; each can be saved.</p>'
        f'<div class="studies">{figures}</div>{told}</section>'
    )


def fitting(pictures: Sequence[Picture], most: int = MOST) -> tuple[list[Picture], list[Picture]]:
    """Return the pictures that fit in so many characters, first come, and the others.

    >>> small, large = (Picture(name, "", "image/png", bytes(size)) for name, size in (("a", 30), ("b", 90)))
    >>> [[one.title for one in part] for part in fitting([small, large, small], 100)]
    [['a', 'a'], ['b']]
    """
    kept: list[Picture] = []
    left_out: list[Picture] = []
    used = 0
    for one in pictures:
        size = 4 * -(-len(one.data) // 3)
        fits = used + size <= most
        used += size if fits else 0
        (kept if fits else left_out).append(one)
    return kept, left_out


def _figure(one: Picture) -> str:
    # As an <img> a drawing runs no script and fetches nothing. The page's script gives the link the picture's
    # address, so that the bytes are here once.
    source = f"data:{one.media_type};base64,{b64encode(one.data).decode('ascii')}"
    name = f"{_file_name(one.title)}.{ENDINGS[one.media_type]}"
    return (
        f'<figure class="study"><figcaption><b>{escape(one.title)}</b></figcaption>'
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape(one.title)}">'
        f'<img decoding="async" alt="{escape(one.title)}, drawn; described below" width="{one.width}" '
        f'src="{source}"></div>'
        f'<p class="told">{escape(one.caption)} <a href="#studies" data-save="{escape(name)}">Save as '
        f"{ENDINGS[one.media_type]}</a></p></figure>"
    )


def _file_name(title: str) -> str:
    """Return a title as the name of a file.

    >>> _file_name("bert-spaces/fig1: The Hopf link")
    'bert-spaces-fig1-the-hopf-link'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "study"
