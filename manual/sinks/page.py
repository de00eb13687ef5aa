"""docs/sinks.md: the text of text.md with the tables and the numbers that it names."""

from __future__ import annotations

import re
from pathlib import Path

from manual.markdown import DO_NOT_EDIT
from manual.sinks.numbers import list_numbers
from manual.sinks.tables import DOCS, MAKE, render

PAGE, IMAGES = DOCS / "sinks.md", DOCS / "images"
TEXT = Path(__file__).with_name("text.md")
_FIELD = re.compile(r"\{(table: )?([\w-]+)\}")


def page() -> str:
    """Return docs/sinks.md. In text.md, `{table: bell}` is a table and `{late_first}` a number."""
    numbers = list_numbers()

    def fill(found: re.Match[str]) -> str:
        return render(*MAKE[found[2]]()).rstrip() if found[1] else numbers[found[2]]

    title, _, text = TEXT.read_text("utf-8").partition("\n")
    return f"{title}\n\n{DO_NOT_EDIT}\n{_FIELD.sub(fill, text)}"
