"""Wiki markup to plain text: the words that a reader of the article sees, without code, media, tables and tags.

Written by hand because no library gives the same corpus: another parser would change the text, the sha256 of
`enwik8-clean` and every number measured on it.
"""

import html
import html.entities
import re


def cut_pairs(text: str, marks: re.Pattern[str], replacement: str = "") -> str:
    """Remove each outermost pair of nested brackets with its content.

    A match of `marks` opens a pair if its group "open" matched, else it closes one. Of an unmatched mark only the
    mark is removed, so that a missing bracket does not remove the rest of the page. Linear in the length.

    >>> marks = re.compile(r"(?P<open>[(])|[)]")
    >>> cut_pairs("a (b (c) d) e (f (g) h", marks)
    'a  e f  h'
    """
    kept: list[str] = []
    opened: list[int] = []  # the index in `kept` of each open mark
    end = 0
    for mark in marks.finditer(text):
        kept.append(text[end : mark.start()])
        end = mark.end()
        if mark["open"] is not None:
            opened.append(len(kept))
        elif opened:
            del kept[opened.pop() :]
            kept.append(replacement)
    kept.append(text[end:])
    return "".join(kept)


# Elements that contain code, media, formulas or notes, not sentences of the article.
REMOVED = (
    "code gallery hiero imagemap includeonly inputbox math pre ref references score script source style "
    "syntaxhighlight timeline"
).split()
# Known by name, because "<" may also be text.
TAGS = (
    "a abbr b big blockquote body br caption center cite col dd del dfn div dl dt em embed font form "
    "gallery h1 h2 h3 h4 h5 h6 head hr html i img input ins kbd li link math meta nobr noinclude nowiki "
    "object ol onlyinclude p param pre q rb rp rt ruby s samp small span strike strong sub sup table "
    "tbody td tfoot th thead title tr tt u ul var wbr"
).split()
_BLOCKS = "blockquote br caption center dd div dl dt h1 h2 h3 h4 h5 h6 hr li ol p table td th title tr ul".split()
_OPENING = re.compile(rf"<!--|<(?P<name>nowiki|{'|'.join(REMOVED)})\b[^<>]*>", re.IGNORECASE)
_CLOSING = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("nowiki", *REMOVED)} | {
    "!--": re.compile(r"-->|\Z")
}
_HTML_TABLE = re.compile(r"(?P<open><table\b[^<>]*>)|</table\s*>", re.IGNORECASE)
_TAG = re.compile(rf"</?(?P<name>{'|'.join({*TAGS, *REMOVED})})\b[^<>]*>", re.IGNORECASE)
# The content of nowiki is text whatever it looks like: private-use characters protect it from the other rules.
_MARKUP = "[]{}|'<>=*:_/!-"
_SHIELD = {ord(sign): 0xE000 + index for index, sign in enumerate(_MARKUP)}
_UNSHIELD = {private: sign for sign, private in _SHIELD.items()}


def cut_elements(text: str) -> str:
    """Remove comments, and the elements that contain no sentences; protect the content of nowiki.

    An unclosed comment extends to the end of the page, as in the wiki; of an unclosed element only the tag is
    removed.

    >>> cut_elements("a<!-- x -->b<ref name='n'/>c<ref>d</ref>")
    'abc'
    """
    kept: list[str] = []
    unclosed: set[str] = set()  # an element not closed after one position is not closed after a later one either
    end = 0
    # One scan from left to right, as the wiki does: a comment within nowiki is text, and vice versa.
    while opening := _OPENING.search(text, end):
        kept.append(text[end : opening.start()])
        name, end = (opening["name"] or "!--").lower(), opening.end()
        if opening[0].endswith("/>"):
            continue
        closing = None if name in unclosed else _CLOSING[name].search(text, end)
        if closing is None:
            unclosed.add(name)
            continue
        if name == "nowiki":
            kept.append(text[end : closing.start()].translate(_SHIELD))
        end = closing.end()
    kept.append(text[end:])
    return "".join(kept)


def cut_tags(text: str) -> str:
    """Remove HTML tables, and of all other elements only the tags.

    >>> cut_tags("H<sub>2</sub>O, a < b<br/>new")
    'H2O, a < b\\nnew'
    """
    return _TAG.sub(_replace_tag, cut_pairs(text, _HTML_TABLE, "\n"))


def unshield(text: str) -> str:
    """Restore the characters that `cut_elements` protected."""
    return text.translate(_UNSHIELD)


def _replace_tag(tag: re.Match[str]) -> str:
    return "\n" if tag["name"].lower() in _BLOCKS else ""


_QUOTES = re.compile("'{2,}")
_HEADING = re.compile(r"^=+[ \t]*(.*?)[ \t]*=+[ \t]*$", re.MULTILINE)
# With text on the same line it is no heading for the wiki, but its author meant one.
_RUN_ON = re.compile(r"^(={2,})[ \t]*([^=\n]+?)[ \t]*\1", re.MULTILINE)
_LIST = re.compile(r"^[ \t]*[*#:;]+[ \t]*", re.MULTILINE)
_RULE = re.compile(r"^-{4,}", re.MULTILINE)
# Cells and rows of an unclosed or unopened table.
_CELL = re.compile(r"^[ \t]*(?:\|[^\n]*|!(?=[^\n]*(?:\||!!))[^\n]*)$", re.MULTILINE)
_SWITCH = re.compile(r"__[A-Z]+__")
_INDENT = re.compile(r"^ (?=.*\S)", re.MULTILINE)
_SPACES = re.compile(r"[ \t\u00a0\u2002\u2003\u2009]+")  # including &nbsp; &ensp; &emsp;
_BLANK = re.compile(r"\n(?:[ \t]*\n)+")
# Empty brackets whose template, formula or address was removed.
_HOLLOW = re.compile(r"[ \t]*\([ \t]*[,;:.]*[ \t]*\)|(?<!\w)[ \t]*\[[ \t]*\]")
_OPENED_BY_COMMA = re.compile(r"\([ \t]*[,;][ \t]*|\([ \t]+")
_BEFORE = re.compile(r"[ \t]+(?=[,)]|\.(?:\s|$))", re.MULTILINE)
PREFORMATTED = "\ue0ff"
"""A private-use character that replaces the space at the beginning of a line of code."""
_CODE = re.compile(rf"^[ \t]*{PREFORMATTED}.*$", re.MULTILINE)


def mark_preformatted(text: str) -> str:
    """Mark each line that begins with a space, before another rule can leave a space at the start of a line."""
    return _INDENT.sub(PREFORMATTED, text)


def cut_quotes(text: str) -> str:
    """Remove the marks of bold and italics; keep the words.

    >>> cut_quotes("'''b''' is ''c'', the '''dog''''s")
    "b is c, the dog's"
    """
    return _QUOTES.sub(_apostrophes, text)


def cut_marks(text: str) -> str:
    """Remove lines of code and of table cells, switches, and the marks of headings, lists and rules.

    >>> cut_marks("== A ==\\n* b\\n----\\n|- d")
    'A\\nb\\n\\n'
    """
    text = _CODE.sub("", text).replace(PREFORMATTED, " ")
    text = _CELL.sub("", _SWITCH.sub("", text))
    text = _RUN_ON.sub(r"\2", _HEADING.sub(r"\1", text))
    return _LIST.sub("", _RULE.sub("", text))


def tidy(text: str) -> str:
    """Remove empty brackets, repeated spaces and repeated blank lines.

    >>> tidy("  a  ( ; ) ,  b \\n \\n\\n c")
    'a, b\\n\\nc'
    """
    text = _HOLLOW.sub("", _SPACES.sub(" ", text))
    text = _BEFORE.sub("", _OPENED_BY_COMMA.sub("(", text))
    lines = (line.strip() for line in text.split("\n"))
    return _BLANK.sub("\n\n", "\n".join(lines)).strip()


def _apostrophes(run: re.Match[str]) -> str:
    """Return the apostrophes that are text: two, three and five in a row are marks, further ones are text."""
    count = len(run[0])
    return "'" * (1 if count == 4 else max(0, count - 5))


_BRACKETS = re.compile(r"\[\[|\]\]")
_SCHEME = r"(?:https?|ftp|gopher|irc|telnet|nntp|news|mailto):"
_ADDRESS = rf"{_SCHEME}(?://)?[^\s\[\]<>|\"]+"
_EXTERNAL = re.compile(rf"\[[ \t]*{_ADDRESS}[ \t]*([^\[\]\n]*)\]?", re.IGNORECASE)
_EXTERNAL_START = re.compile(rf"[ \t]*{_ADDRESS}[ \t]*", re.IGNORECASE)
_BARE = re.compile(r"\b(?:https?|ftp|gopher)://[^\s\[\]<>|\"]*[^\s\[\]<>|\".,;:!?)']", re.IGNORECASE)
_UNSEEN = {"image", "file", "media", "category"}
# Language codes have two or three letters, or parts joined by "-"; _NO_LANGUAGE are other sites and schemes.
_LANGUAGE = re.compile(r"[a-z]{2,3}|[a-z]{2,4}-[a-z]{2,}(?:-[a-z]+)*|simple|tokipona|nostalgia")
_NO_LANGUAGE = {"doi", "rfc", "wp", "mw", "cia", "ftp", "irc"}
_BRACKETED = re.compile(r"\s*\([^()]*\)$")


def cut_internal(text: str) -> str:
    """Replace every [[...]] by its visible text, innermost links first.

    >>> cut_internal("[[Image:x.png|thumb|a [[cat|tom]] sits]]The [[dog (pet)|]] and [[wolf|wolves]].[[de:Hund]]")
    'The dog and wolves.'
    """
    levels: list[list[str]] = [[]]
    end = 0
    for bracket in _BRACKETS.finditer(text):
        levels[-1].append(text[end : bracket.start()])
        end = bracket.end()
        if bracket[0] == "[[":
            levels.append([])
        elif len(levels) > 1:
            held = "".join(levels.pop())
            levels[-1].append(_visible_text(held))
    levels[-1].append(text[end:])
    while len(levels) > 1:
        held = "".join(levels.pop())
        levels[-1].append(_unclosed_text(held))
    return "".join(levels[0])


def cut_external(text: str) -> str:
    """Replace [address label] by the label, and remove bare addresses.

    >>> cut_external("see [http://a.b/c the site] (http://d.e/f), [http://g.h].")
    'see the site (), .'
    """
    return _BARE.sub("", _EXTERNAL.sub(r"\1", text))


def _visible_text(held: str) -> str:
    """Return the visible text of a link with this content."""
    target, bar, label = held.partition("|")
    name = target.strip()
    if _EXTERNAL_START.match(held):  # an external link in double brackets
        return _EXTERNAL_START.sub("", held, count=1)
    if _is_unseen(name):
        return ""
    name = name.removeprefix(":").strip()
    if not bar:
        return name
    # [[dog (animal)|]] is short for [[dog (animal)|dog]]
    return label.rpartition("|")[2] if label.strip() else _BRACKETED.sub("", name.rpartition(":")[2])


def _is_unseen(name: str) -> bool:
    """Return whether a link has no visible text: a picture, a category, the page in another language."""
    prefix, colon, _ = name.partition(":")
    if not colon:
        return False
    prefix = prefix.strip()
    return prefix.lower() in _UNSEEN or (_LANGUAGE.fullmatch(prefix) is not None and prefix not in _NO_LANGUAGE)


def _unclosed_text(held: str) -> str:
    """Return the visible text of an unclosed link: of a picture, the text after its line."""
    line, newline, rest = held.partition("\n")
    return (_visible_text(line.rstrip("]")) if "|" in line or _is_unseen(line.strip()) else line) + newline + rest


_PARAMETER = re.compile(r"\{\{\{[^{}]*\}\}\}")
# Templates that only choose a typeface for their last argument; the sentence needs that word.
_SPELLING = re.compile(
    r"\{\{\s*(?:ipa2?|polytonic|unicode|audio|lang|arabdin|arabiyyah|ar|hayeren|hebrew|he|script)\s*"
    r"\|(?:[^{}|]*\|)*([^{}|]*)\}\}",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"(?P<open>\{\{)|\}\}")
# Only at the start of a line: elsewhere "{|" and "|}" are text. The first line has the settings of the table.
_WIKI_TABLE = re.compile(
    rf"^[ \t{PREFORMATTED}:*#;]*(?P<open>\{{\|[^\n]*)|^[ \t{PREFORMATTED}]*\|\}}", re.MULTILINE
)


def cut_templates(text: str) -> str:
    """Remove templates with their arguments; keep the words of templates that only set a typeface.

    >>> cut_templates("{{a|{{b|{{{c}}}}}}}x{{d}} y}} {{z is {{lang|de|Zett}}")
    'x y z is Zett'
    """
    return cut_pairs(_SPELLING.sub(r"\1", _PARAMETER.sub("", text)), _TEMPLATE)


def cut_tables(text: str) -> str:
    """Remove tables and the tables in their cells; call it after `cut_templates`, because "|}}" ends a template.

    >>> cut_tables("a\\n{| x=1\\n| b\\n{|\\n| c\\n|}\\n|}\\nd")
    'a\\n\\nd'
    """
    return cut_pairs(text, _WIKI_TABLE)


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
# A name without its semicolon stays: "AT&T", "&copy".
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def is_article(title: str, markup: str) -> bool:
    """Return whether a page is an article: in the main namespace and not a redirect.

    >>> is_article("Ant", "An '''ant'''"), is_article("Ants", "#REDIRECT [[Ant]]"), is_article("Talk:Ant", "Hi")
    (True, False, False)
    """
    prefix, colon, _ = title.partition(":")
    named = bool(colon) and prefix.strip().lower().replace("_", " ") in _NAMESPACES
    return not named and _REDIRECT.match(markup) is None


def strip_markup(markup: str) -> str:
    """Return the text of a page: paragraphs, headings and lists, with at most one blank line between them.

    Removed with their content: comments, templates, tables, pictures with their captions, galleries, formulas,
    code, references, categories, links to other languages. Of other links the label stays, of other elements the
    content; entities become characters. A line that begins with a space, which the wiki shows as code, is removed
    too. Deterministic; time is about linear in the length.

    >>> strip_markup("An '''ant''' {{see|x}}is [[insect|small]]&mdash;<b>very</b>.<ref>Wilson</ref>")
    'An ant is small—very.'
    """
    # Quotes are removed before templates: '''{{x}}''' would leave six in a row.
    text = cut_quotes(cut_elements(mark_preformatted(markup)))
    text = cut_tables(cut_templates(text))
    text = cut_tags(cut_external(cut_internal(text)))
    return tidy(unshield(unescape(cut_marks(text))))


def unescape(text: str) -> str:
    """Replace known entities that end with a semicolon; keep all others.

    >>> unescape("AT&T &lt;&#233;&notanentity; &copy")
    'AT&T <é&notanentity; &copy'
    """
    return _ENTITY.sub(_character, text)


def _character(entity: re.Match[str]) -> str:
    name = entity[0][1:]
    # html.unescape, like browsers, reads "&notanentity;" as "¬anentity;".
    return html.unescape(entity[0]) if name.startswith("#") or name in html.entities.html5 else entity[0]
