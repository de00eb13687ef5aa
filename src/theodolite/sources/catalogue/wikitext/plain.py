"""The rules in their order: from the markup of a page to its text."""

import html
import html.entities
import re

from theodolite.sources.catalogue.wikitext.elements import cut_elements, cut_tags, unshield
from theodolite.sources.catalogue.wikitext.lines import cut_marks, cut_quotes, mark_preformatted, tidy
from theodolite.sources.catalogue.wikitext.links import cut_external, cut_internal
from theodolite.sources.catalogue.wikitext.templates import cut_tables, cut_templates

_NAMESPACES = {
    "media",
    "special",
    *(
        f"{name}{talk}"
        for name in "user wikipedia image file mediawiki template help category portal".split()
        for talk in ("", " talk")
    ),
    "talk",
}
_REDIRECT = re.compile(r"\s*#\s*redirect\b", re.IGNORECASE)
# A name without its semicolon is left alone: "AT&T" and "&copy" are what they are.
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def is_article(title: str, markup: str) -> bool:
    """Tell whether a page is an article: in no namespace of its own, and no mere pointer to another page.

    >>> is_article("Ant", "An '''ant'''"), is_article("Ants", "#REDIRECT [[Ant]]"), is_article("Talk:Ant", "Hi")
    (True, False, False)
    """
    prefix, colon, _ = title.partition(":")
    named = bool(colon) and prefix.strip().lower().replace("_", " ") in _NAMESPACES
    return not named and _REDIRECT.match(markup) is None


def plain_text(markup: str) -> str:
    """Return the words of a page: paragraphs, headings and lists, a blank line at most between them.

    Removed with all they hold: comments, templates, tables, pictures with their captions, galleries, formulas,
    code, references, categories, links to other languages. Of other links the label stays, of other tags what
    they enclose; entities become their characters. A line that begins with a space, which the wiki sets in the
    type of code, is code and goes too. Deterministic; time is about linear in the length.

    >>> plain_text("An '''ant''' {{see|x}}is [[insect|small]]&mdash;<b>very</b>.<ref>Wilson</ref>")
    'An ant is small—very.'
    """
    # Quotes go before templates, for '''{{x}}''' would leave six in a row.
    text = cut_quotes(cut_elements(mark_preformatted(markup)))
    text = cut_tables(cut_templates(text))
    text = cut_tags(cut_external(cut_internal(text)))
    return tidy(unshield(unescape(cut_marks(text))))


def unescape(text: str) -> str:
    """Replace entities that are known and end as they should; the others stay as they are.

    >>> unescape("AT&T &lt;&#233;&notanentity; &copy")
    'AT&T <é&notanentity; &copy'
    """
    return _ENTITY.sub(_character, text)


def _character(entity: re.Match[str]) -> str:
    name = entity[0][1:]
    # html.unescape would read "&notanentity;" as "¬anentity;", as browsers do.
    return html.unescape(entity[0]) if name.startswith("#") or name in html.entities.html5 else entity[0]
