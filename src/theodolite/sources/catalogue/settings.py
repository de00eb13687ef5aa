"""Where pip is configured to look: its indexes, extra folders, certificate and proxy."""

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

PYPI = "https://pypi.org/simple"
# -P, or a pip.py in the folder that the user happens to be in would run instead.
PIP = (sys.executable, "-P", "-m", "pip")
# pip lets later ones override earlier ones.
_SECTIONS = ("global", "download", ":env:")
_READ = ("index-url", "extra-index-url", "find-links", "no-index", "cert", "proxy", "timeout", "default-timeout")


@dataclass(frozen=True)
class PipSettings:
    """The part of pip's configuration that says where files come from."""

    indexes: tuple[str, ...] = (PYPI,)
    find_links: tuple[str, ...] = ()
    cert: str | None = None
    proxy: str | None = None
    timeout: float = 15.0


def has_pip() -> bool:
    """Tell whether this Python has pip; some environments are made without it."""
    return importlib.util.find_spec("pip") is not None


def pip_settings() -> PipSettings:
    """Return what `pip config list` says, or without pip what the `PIP_` variables say."""
    if not has_pip():
        return from_values({key: os.environ.get(_variable(key), "") for key in _READ})
    listing = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, timeout=60, check=False)
    return from_values(from_listing(listing.stdout))


def from_listing(listing: str) -> dict[str, str]:
    """Read the lines of `pip config list`, environment over command over global.

    >>> from_listing("global.timeout='5'\\n:env:.timeout='9'")
    {'timeout': '9'}
    """
    values: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        name, _, quoted = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in values and quoted:
            values[section][key] = str(ast.literal_eval(quoted))
    return {key: value for section in _SECTIONS for key, value in values[section].items()}


def from_values(values: Mapping[str, str]) -> PipSettings:
    """Return the settings that these raw values mean; lists are separated by white space, as pip has them."""
    indexes = (values.get("index-url") or PYPI, *values.get("extra-index-url", "").split())
    offline = values.get("no-index", "").lower() in ("1", "true", "yes", "on")
    timeout = values.get("timeout") or values.get("default-timeout") or PipSettings.timeout
    return PipSettings(
        indexes=() if offline else indexes,
        find_links=tuple(values.get("find-links", "").split()),
        cert=values.get("cert") or None,
        proxy=values.get("proxy") or None,
        timeout=float(timeout),
    )


def _variable(key: str) -> str:
    return "PIP_" + key.upper().replace("-", "_")
