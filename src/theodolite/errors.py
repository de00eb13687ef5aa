"""One family of errors. Each message states what is wrong, what was given and what to do.

Messages are written with the flags of the command line (--max-tokens). Python code sees the names of arguments
instead (max_tokens): `str(error)` translates them, except while the command line runs.
"""

from __future__ import annotations

import re

show_flags = False
"""Whether messages name flags, as on the command line, or the arguments of Python."""
_FLAG = re.compile(r"(?<![\w/-])--(no-)?([a-z][a-z0-9-]*[a-z0-9])")
_PLACEHOLDER = re.compile(r"\b(MODEL|CORPUS|FILE|SOURCE)\b(?=[ :.,;]|$)")
_SWITCHES = frozenset(
    (
        "resume overwrite trust_remote_code chat wrap clean_words contextuality layer_scores drop_special "
        "skip_bad quick"
    ).split()
)
"""Options without a value on the command line."""


class TheodoliteError(Exception):
    """Something went wrong that one sentence can explain; the command line exits with 1."""

    exit_code = 1

    def __str__(self) -> str:
        return self.message if show_flags else name_arguments(self.message)

    @property
    def message(self) -> str:
        """The message with the flags of the command line."""
        return super().__str__()


class InputError(TheodoliteError):
    """The user's input is wrong: a name, a file, an option; the command line exits with 2."""

    exit_code = 2


class MemoryLimitError(InputError):
    """A survey needs more memory than it may use."""


class DamagedError(TheodoliteError):
    """A file of a survey is unreadable, incomplete, or does not match its checksum."""


class OfflineError(TheodoliteError):
    """Something had to be downloaded and could not be."""


def name_arguments(message: str) -> str:
    """Return a message with the arguments of Python in place of flags; commands in backticks stay.

    >>> name_arguments("--max-tokens must be at least 1 (got 0).")
    'max_tokens must be at least 1 (got 0).'
    >>> name_arguments("Run it again with --resume; `theodolite show DIR --json` shows it.")
    'Run it again with resume=True; `theodolite show DIR --json` shows it.'
    """
    parts = re.split(r"(`[^`]*`)", message)
    return "".join(part if part.startswith("`") else _rename(part) for part in parts)


def _rename(text: str) -> str:
    return _PLACEHOLDER.sub(lambda found: found[0].lower(), _FLAG.sub(_argument, text))


def _argument(found: re.Match[str]) -> str:
    name = found[2].replace("-", "_")
    if found[1]:
        return f"{name}=False"
    stated = found.string[found.end() :].startswith(":")  # "--wrap: True there, False now"
    return f"{name}=True" if name in _SWITCHES and not stated else name


def full_message(error: BaseException) -> str:
    """Return the message of an error as a part of another one: with flags, which are translated only once."""
    return error.message if isinstance(error, TheodoliteError) else str(error)


LONGEST = 400  # characters of the error of a library that is shown


def first_line(error: BaseException, otherwise: str | None = None) -> str:
    """Return the first line of an error's message; if it has none, `otherwise` or the name of its class.

    If the first line is a heading that ends with a colon, the line below it, which has the cause, is added. Of a
    very long line, only the first sentence is returned.

    >>> first_line(ValueError("no such file\\nsecond line")), first_line(KeyError()), first_line(KeyError(), "")
    ('no such file', 'KeyError', '')
    >>> first_line(RuntimeError("Errors in loading:\\n\\tsize mismatch for a\\n\\tsize mismatch for b"))
    'Errors in loading: size mismatch for a'
    """
    lines = list(filter(None, map(str.strip, full_message(error).splitlines())))
    if not lines:
        return type(error).__name__ if otherwise is None else otherwise
    line = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return line if len(line) <= LONGEST else line.partition(". ")[0].removesuffix(".") + "."


def nearest(name: str, known: list[str], *, similarity: float = 0.5) -> str:
    """Return " Did you mean 'x' or 'y'?" for the known names close to the given one, else an empty string.

    `similarity` is the least share of letters, in order, that two names must have in common.

    >>> nearest("minilm", ["minilm-l6", "smollm2-135m"])
    " Did you mean 'minilm-l6'?"
    """
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=3, cutoff=similarity)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
