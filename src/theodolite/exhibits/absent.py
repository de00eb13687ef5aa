"""What is said of an exhibit that there is not: why, of which paper it may be, or which are near."""

from __future__ import annotations

from collections.abc import Sequence

from theodolite.errors import nearest

NOTHING_COMPUTED = {
    "norm-variance/fig3": "an illustration of the sets of vectors that M and V are taken of",
    "bert-spaces/fig4": "a diagram of the transformer, taken from Vaswani et al. (2017)",
    "bert-spaces/fig5": "a diagram of an encoder",
    "bert-spaces/fig7": "a diagram of self-attention",
    "bert-spaces/fig8": "a picture of attention patterns, taken from Kovaleva et al. (2019)",
    "bert-spaces/fig9": "a diagram of BERT",
}
"""Figures of the papers that show no numbers of their own."""


def why_absent(name: str, known: Sequence[str]) -> str:
    """Return the sentence for a name that is not among the known ones.

    >>> why_absent("fig4", ["dynamics/fig4", "norm-variance/fig4"])
    "There is no exhibit 'fig4' without its paper: 'dynamics/fig4' or 'norm-variance/fig4'?"
    """
    if name in NOTHING_COMPUTED:
        what = NOTHING_COMPUTED[name]
        return f"There is no exhibit {name!r}: in the paper it is {what}, with nothing in it to compute."
    same = [each for each in known if each.partition("/")[2] == name.lower()]
    if same:
        return f"There is no exhibit {name!r} without its paper: {_any_of(same)}?"
    papers = [] if "/" in name else list(dict.fromkeys(each.partition("/")[0] for each in known))
    hint = nearest(name, [*papers, *known]) or " `theodolite exhibits` lists them."
    return f"There is no exhibit {name!r}.{hint}"


def _any_of(names: Sequence[str]) -> str:
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}" if others else last
