from __future__ import annotations

import pytest

from theodolite.exhibits.drawing.style import RC


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw small pictures with simple fonts: what is in them does not depend on them, and fonts take long."""
    monkeypatch.setitem(RC, "savefig.dpi", 40)
    monkeypatch.setitem(RC, "pdf.fonttype", 3)
