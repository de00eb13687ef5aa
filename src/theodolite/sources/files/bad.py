"""A file that cannot be used: its name and the reason."""

from theodolite.errors import InputError


class BadFileError(InputError):
    """One file of a corpus is at fault; with --skip-bad it is left out and counted instead.

    >>> print(BadFileError("a/b.wav", "is silent"))
    CORPUS: 'a/b.wav' is silent; mend or remove it, or give --skip-bad to leave out such files and count them.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"CORPUS: '{name}' {reason}; mend or remove it, or give --skip-bad to leave out such files and count "
            "them."
        )
        self.name = name
        self.reason = reason

    def __reduce__(self) -> tuple[type["BadFileError"], tuple[str, str]]:
        return type(self), (self.name, self.reason)
