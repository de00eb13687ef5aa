"""Links: what a reader sees of [[internal]] and [external] ones."""

import re

_BRACKETS = re.compile(r"\[\[|\]\]")
_SCHEME = r"(?:https?|ftp|gopher|irc|telnet|nntp|news|mailto):"
_ADDRESS = rf"{_SCHEME}(?://)?[^\s\[\]<>|\"]+"
_EXTERNAL = re.compile(rf"\[[ \t]*{_ADDRESS}[ \t]*([^\[\]\n]*)\]?", re.IGNORECASE)
_EXTERNAL_START = re.compile(rf"[ \t]*{_ADDRESS}[ \t]*", re.IGNORECASE)
_BARE = re.compile(r"\b(?:https?|ftp|gopher)://[^\s\[\]<>|\"]*[^\s\[\]<>|\".,;:!?)']", re.IGNORECASE)
_UNSEEN = {"image", "file", "media", "category"}
# Codes of languages have two or three letters, or parts joined by "-"; these are other sites and schemes.
_LANGUAGE = re.compile(r"[a-z]{2,3}|[a-z]{2,4}-[a-z]{2,}(?:-[a-z]+)*|simple|tokipona|nostalgia")
_NO_LANGUAGE = {"doi", "rfc", "wp", "mw", "cia", "ftp", "irc"}
_BRACKETED = re.compile(r"\s*\([^()]*\)$")


def cut_internal(text: str) -> str:
    """Replace every [[...]] by what is read of it, the inner ones of a caption first.

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
            levels[-1].append(_read(held))
    levels[-1].append(text[end:])
    while len(levels) > 1:
        held = "".join(levels.pop())
        levels[-1].append(_unclosed(held))
    return "".join(levels[0])


def cut_external(text: str) -> str:
    """Replace [address label] by the label, and remove addresses that stand alone.

    >>> cut_external("see [http://a.b/c the site] (http://d.e/f), [http://g.h].")
    'see the site (), .'
    """
    return _BARE.sub("", _EXTERNAL.sub(r"\1", text))


def _read(held: str) -> str:
    """Return what a reader sees of a link that holds this."""
    target, bar, label = held.partition("|")
    name = target.strip()
    if _EXTERNAL_START.match(held):  # a single pair of brackets was meant
        return _EXTERNAL_START.sub("", held, count=1)
    if _is_unseen(name):
        return ""
    name = name.removeprefix(":").strip()
    if not bar:
        return name
    # [[dog (animal)|]] is short for [[dog (animal)|dog]]
    return label.rpartition("|")[2] if label.strip() else _BRACKETED.sub("", name.rpartition(":")[2])


def _is_unseen(name: str) -> bool:
    """Tell whether a link of that name shows no words: a picture, a category, the page in another language."""
    prefix, colon, _ = name.partition(":")
    if not colon:
        return False
    prefix = prefix.strip()
    return prefix.lower() in _UNSEEN or (_LANGUAGE.fullmatch(prefix) is not None and prefix not in _NO_LANGUAGE)


def _unclosed(held: str) -> str:
    """Return what is left of a link that nobody closed: of a picture, the text after its line."""
    line, newline, rest = held.partition("\n")
    return (_read(line.rstrip("]")) if "|" in line or _is_unseen(line.strip()) else line) + newline + rest
