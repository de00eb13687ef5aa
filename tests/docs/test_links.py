"""Every relative link of README.md, CHANGELOG.md and docs/ leads to a file, and every anchor to a heading."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVERY = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def without_code(text: str) -> str:
    """Remove fences and text in backticks, where apparent links are not links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE))


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors that GitHub and the site give a page's headings, and those set by hand."""
    text = page.read_text("utf-8")
    plain = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,6} +(.*?) *#* *$", plain, flags=re.MULTILINE)
    made = {
        re.sub(r"[^\w-]", "", re.sub(r"[`*\\]", "", heading).lower().replace(" ", "-")) for heading in headings
    }
    return frozenset(made | set(re.findall(r'<a id="([^"]+)"', text)))


def broken(page: Path) -> list[str]:
    """Return the broken links of a page."""
    text = re.sub(r"\[`([^`\n]*)`\]", r"[\1]", page.read_text("utf-8"))  # `code` as the text of a link
    found = []
    for target in LINK.findall(without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_has_a_target(page: Path) -> None:
    assert broken(page) == []


def test_links_of_pages_stay_in_the_site() -> None:
    """A link out of docs/ works on GitHub and not in the site."""
    docs = ROOT / "docs"
    for page in sorted(docs.rglob("*.md")):
        for target in LINK.findall(without_code(page.read_text("utf-8"))):
            if not re.match(r"[a-z]+:|#", target):
                assert (page.parent / target.partition("#")[0]).resolve().is_relative_to(docs), f"{page}: {target}"


def test_a_broken_link_is_detected(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# A heading: `x/y`\n")
    page = tmp_path / "a.md"
    page.write_text("[1](b.md) [2](c.md) [3](b.md#a-heading-xy) [`4`](b.md#no) `[5](d.md)`\n```\n[6](e.md)\n```\n")
    assert broken(page) == ["c.md", "b.md#no"]
