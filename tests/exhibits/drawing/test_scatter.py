"""The limits of scatter plots show every unit in the fit, and leave out only a few others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from theodolite.exhibits.drawing.scatter import MANY, set_limits


@pytest.mark.parametrize(("share", "outside"), [(MANY / 2, True), (0.5, False)])
def test_many_units_far_from_the_fit_are_not_left_outside(share: float, outside: bool) -> None:
    """Half of the units occur once and have V = 0, at any distance from those in the fit."""
    far = round(400 * share)
    y = np.concatenate([np.zeros(far), np.linspace(4.0, 4.5, 400 - far)])
    points = pd.DataFrame({"x": np.arange(400.0), "y": y, "used": y > 0})
    ax = Figure().subplots()
    assert set_limits(ax, points, "x", "y") == (far if outside else 0)
    assert (ax.get_ylim()[0] > 0) == outside
    assert ax.get_ylim()[1] > 4.5
