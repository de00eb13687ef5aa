"""Several surveys side by side: the headline figure of each finding."""

from __future__ import annotations

from theodolite.report.findings import findings
from theodolite.report.numbers import UNDEFINED
from theodolite.report.tables import Tables
from theodolite.report.text import escape

HEADS = {
    "mean_cosine": "highest mean cosine",
    "anisotropy_svd": "highest SVD anisotropy",
    "makeup": "largest M/Q",
    "tradeoff": "highest R² of V on M",
    "dimension": "effective rank",
    "norms": "median norm, greatest over least",
}


def side_by_side(surveys: list[Tables]) -> str:
    """Return the headline figure of each finding, a row a survey, as an HTML table."""
    heads = "".join(f'<th scope="col">{name}</th>' for name in HEADS.values())
    rows = "".join(_figures(tables) for tables in surveys)
    return (
        '<div class="scroll side" tabindex="0" role="region" aria-label="Headline figures"><table>'
        f'<thead><tr><th scope="col">survey</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _figures(tables: Tables) -> str:
    known = {one.key: one for one in findings(tables)}
    cells = "".join(
        f'<td title="{escape(known[key].headline)}">{escape(known[key].figure)}</td>'
        if key in known
        else f"<td>{UNDEFINED}</td>"
        for key in HEADS
    )
    return f'<tr><th scope="row">{escape(tables.name)}</th>{cells}</tr>'
