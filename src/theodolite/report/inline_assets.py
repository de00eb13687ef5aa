"""The CSS, scripts and formulas that the page contains, and the content security policy."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

SCRIPTS = (
    "columns", "numbers", "state", "axes", "theme", "elements", "tooltip", "layer-keys", "webgl", "export",
    "figure", "sections", "address", "side-by-side", "steps", "profiles", "groups", "decomposition", "norms",
    "spectra", "projection", "token-data", "token-contexts", "token-overlay", "token-search", "token-path",
    "token-table", "token-axes", "token-traces", "token-map", "toolbar",
)  # fmt: skip
"""The files of the script in the order of their dependencies; `start` is always last."""


@cache
def read_css() -> str:
    """Return the CSS of the page."""
    return _read_asset("page.css")


@cache
def read_script() -> str:
    """Return the page's own script: every file adds to one object, `theodolite`."""
    parts = [_read_asset(f"{name}.js") for name in (*SCRIPTS, "start")]
    return '"use strict";\nconst theodolite = {};\n' + "\n".join(parts)


@cache
def read_store_script() -> str:
    """Return the script of a store's report, which has no interactive charts: the theme."""
    start = 'theodolite.startTheme(document.getElementById("theme"));\n'
    start += 'document.documentElement.dataset.ready = "yes";'
    return f'"use strict";\nconst theodolite = {{}};\n{_read_asset("theme.js")}\n{start}\n'


@cache
def read_mathml() -> dict[str, str]:
    """Return the typeset formulas by formula id; `python -m manual` makes the file."""
    found: dict[str, str] = json.loads(_read_asset("formulas.json"))
    return found


@cache
def read_plotly() -> str:
    """Return the script of Plotly, which is part of its Python package."""
    return files("plotly").joinpath("package_data/plotly.min.js").read_text(encoding="utf-8")


def security_policy(*scripts: str) -> str:
    """Return a content security policy: these scripts and no other, and nothing from the network.

    'unsafe-eval' is for Plotly, which compiles functions to draw large scatter plots with WebGL; only the scripts
    named by their hashes can use it. Images are data of the page itself.
    """
    hashes = " ".join(f"'sha256-{b64encode(sha256(text.encode('utf-8')).digest()).decode()}'" for text in scripts)
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _read_asset(name: str) -> str:
    return files("theodolite.report").joinpath("assets", name).read_text(encoding="utf-8")
