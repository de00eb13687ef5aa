"""One family of errors: what was wanted, what came, and the way out."""


class TheodoliteError(Exception):
    """Something went wrong that one sentence can explain; the command line exits with 1."""

    exit_code = 1


class InputError(TheodoliteError):
    """The user's input is at fault: a name, a file, an option; the command line exits with 2."""

    exit_code = 2


class DamagedError(TheodoliteError):
    """A file that a survey left is unreadable, cut short, or not what its checksum says."""


class OfflineError(TheodoliteError):
    """Something had to be fetched and could not be."""


def first_line(error: BaseException, otherwise: str | None = None) -> str:
    """Return the first line of what an error says; of one that says nothing its kind, or what is given for that.

    >>> first_line(ValueError("no such file\\nsecond line")), first_line(KeyError()), first_line(KeyError(), "")
    ('no such file', 'KeyError', '')
    """
    said = str(error).strip().splitlines()
    return said[0] if said else type(error).__name__ if otherwise is None else otherwise


def nearest(wanted: str, known: list[str], *, likeness: float = 0.5) -> str:
    """Return " Did you mean 'x' or 'y'?" for the known names close to the wanted one, else an empty string.

    `likeness` is the share of letters, in order, that two names must have in common at least.

    >>> nearest("minilm", ["minilm-l6", "smollm2-135m"])
    " Did you mean 'minilm-l6'?"
    """
    from difflib import get_close_matches

    close = get_close_matches(wanted, known, n=3, cutoff=likeness)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
