"""Templates and tables of the wiki: {{...}} and {| ... |}, within each other to any depth."""

import re

from theodolite.sources.catalogue.wikitext.lines import PREFORMATTED
from theodolite.sources.catalogue.wikitext.pairs import cut_pairs

_PARAMETER = re.compile(r"\{\{\{[^{}]*\}\}\}")
# These only choose a typeface for what they are given last; without them a sentence would lose its words.
_SPELLING = re.compile(
    r"\{\{\s*(?:ipa2?|polytonic|unicode|audio|lang|arabdin|arabiyyah|ar|hayeren|hebrew|he|script)\s*"
    r"\|(?:[^{}|]*\|)*([^{}|]*)\}\}",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"(?P<open>\{\{)|\}\}")
# Only at the start of a line: elsewhere "{|" and "|}" are text. A table's own settings share its first line.
_TABLE = re.compile(rf"^[ \t{PREFORMATTED}:*#;]*(?P<open>\{{\|[^\n]*)|^[ \t{PREFORMATTED}]*\|\}}", re.MULTILINE)


def cut_templates(text: str) -> str:
    """Remove templates with all that they are given, other templates among it; keep words merely spelled by one.

    >>> cut_templates("{{a|{{b|{{{c}}}}}}}x{{d}} y}} {{z is {{lang|de|Zett}}")
    'x y z is Zett'
    """
    return cut_pairs(_SPELLING.sub(r"\1", _PARAMETER.sub("", text)), _TEMPLATE)


def cut_tables(text: str) -> str:
    """Remove tables, with the tables in their cells; to be called after `cut_templates`, for "|}}" ends those.

    >>> cut_tables("a\\n{| x=1\\n| b\\n{|\\n| c\\n|}\\n|}\\nd")
    'a\\n\\nd'
    """
    return cut_pairs(text, _TABLE)
