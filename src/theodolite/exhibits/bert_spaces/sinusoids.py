"""fig6: sinusoidal encodings and their cosines."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import FigureBase

from theodolite.exhibits.bert_spaces.cautions import CAUTIONS
from theodolite.exhibits.bert_spaces.heat import draw_heat
from theodolite.exhibits.exhibit import Plate
from theodolite.exhibits.norm_variance.captions import caption
from theodolite.exhibits.registry import exhibit
from theodolite.studies.choice import Choice
from theodolite.studies.found import tables_of
from theodolite.studies.surveyed import Surveyed


@exhibit("bert-spaces/fig6", title="Sinusoidal encodings and their cosines", needs=[CAUTIONS], reads=())
def fig6(surveys: Sequence[Surveyed], choice: Choice) -> Plate:
    """Draw the encodings of Vaswani et al. as a heat map, their cosines, and those by the thesis' formula."""
    values, cosines = tables_of(surveys[0], ["sinusoid", "sinusoid_cosines"])

    def draw(figure: FigureBase) -> None:
        axes = figure.subplots(1, 3, squeeze=False, width_ratios=[1.5, 1, 1]).ravel()
        draw_heat(axes[0], values, "position", "coordinate", "value", limit=1.0)
        axes[0].set_title("encodings")
        draw_heat(axes[1], cosines, "position", "other", "cosine", limit=1.0)
        axes[1].set_title(r"cosines, exponent $2\lfloor k/2\rfloor/d$")
        image = draw_heat(axes[2], cosines, "position", "other", "cosine_2k", limit=1.0)
        axes[2].set_title("cosines, exponent $2k/d$")
        for ax in axes[1:]:
            ax.set_xlabel("position")
        figure.colorbar(image, ax=axes[2], fraction=0.06)

    positions, dim = int(values["position"].max()) + 1, int(values["coordinate"].max()) + 1
    told = caption(
        f"Sinusoidal encodings of {positions} positions in {dim} dimensions, exponent 2⌊k/2⌋/d as Vaswani et al. "
        "have it: their cosines depend on the distance of two positions alone. The thesis prints 2k/512, by which "
        "no sine and cosine share a frequency and cosines also depend on where the two positions are (right).",
    )
    return Plate(cosines, told, draw, (7.0, 2.4))
