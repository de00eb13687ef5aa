"""What the page carries in itself: its looks, its script and Plotly's, each named by its hash in the policy."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

ORDER = (
    "columns", "numbers", "state", "theme", "elements", "tip", "keys", "webgl", "taking", "figure", "parts",
    "address", "side-by-side", "steps", "profiles", "decomposition", "norms", "spectra", "projection",
    "token-data", "token-search", "token-path", "token-table", "token-axes", "token-points",
    "token-way", "token-map", "toolbar",
)  # fmt: skip
"""The script's files: what is used stands before what uses it. `start` is always last."""


@cache
def css() -> str:
    """Return the page's looks."""
    return _asset("page.css")


@cache
def script() -> str:
    """Return the page's own script: one object, `theodolite`, that every file adds to."""
    parts = [_asset(f"{name}.js") for name in (*ORDER, "start")]
    return '"use strict";\nconst theodolite = {};\n' + "\n".join(parts)


@cache
def plotly() -> str:
    """Return Plotly's script, which its Python package carries."""
    return files("plotly").joinpath("package_data/plotly.min.js").read_text(encoding="utf-8")


def policy(*scripts: str) -> str:
    """Return a content security policy: these scripts and no other, and nothing from the network.

    Plotly draws large scatters through WebGL by functions that it puts together as text, hence 'unsafe-eval'; only
    the scripts named here can do that. Pictures are made from data of the page itself.
    """
    hashes = " ".join(f"'sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode()}'" for text in scripts)
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return files("theodolite.report").joinpath("assets", name).read_text(encoding="utf-8")
