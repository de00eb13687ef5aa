"""docs/reference/arrays.md: the measures of plain arrays with signature, formula and citation."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from manual.markdown import DO_NOT_EDIT, SIGNATURE, cell
from manual.python_names import docstring, signature
from theodolite import measures
from theodolite.cli.markdown import slug
from theodolite.measures.formula import formulas

HEAD = f"""\
# Measures of arrays

{DO_NOT_EDIT}

`theodolite.measures` has every formula as a function of an array `(vectors, dim)`: NumPy or torch, any floating
type, on the CPU or a GPU. `import theodolite` is enough.

```python
import numpy as np
import theodolite

x = np.random.default_rng(0).normal(size=(2000, 16)) + 1
units = np.arange(2000) % 40
cosine = theodolite.measures.mean_cosine(x)
print(cosine)  # value, standard error, n and the id of the formula
print(float(cosine) > 0.4, cosine.se < 0.02, cosine.formula.citation)
parts = theodolite.measures.decompose(x, units)
print(f"{{parts.v_within:.2f}} + {{parts.v_between:.2f}} = {{parts.v:.2f}}")
```

A result has `value`, `se` (standard error, NaN if none is known), `n`, `reason` (why the value is undefined) and
`formula` (definition, cost, citation), and `float(result)` is its value. Standard errors treat vectors as
independent. If several vectors come from one document, give `documents=`, one label per vector: errors are then
over documents.

Vectors that arrive in batches, or on several machines, go through an `Accumulator`, which merges exactly:

```python
import numpy as np
from theodolite.measures import Accumulator

first, second = Accumulator(), Accumulator()
for number, part in enumerate((first, second)):
    for batch in range(3):
        x = np.random.default_rng([number, batch]).normal(size=(500, 16))
        part.update(x, units=np.arange(500) % 40)
first.merge(second)
print(first.n, first["participation_ratio"])
print(first.measures[["q", "m", "v", "v_within", "mean_cosine", "twonn"]])
print(first.units.head())
```
"""
EXAMPLE = np.random.default_rng(0).normal(size=(400, 6))
UNITS = np.arange(400) % 8


def page() -> str:
    """Return the page."""
    functions = {name: getattr(measures, name) for name in measures.__all__ if name[0].islower()}
    known = formulas()
    lines = [HEAD, "| function | measures | formula |", "|---|---|---|"]
    for name, function in functions.items():
        first = (inspect.getdoc(function) or "").partition("\n")[0]
        links = ", ".join(f"[{each}](../measures.md#{known[each].anchor})" for each in formula_ids(function))
        lines.append(f"| [`{name}`](#{slug(f'`{name}`')}) | {cell(first)} | {links} |")
    for name, function in functions.items():
        lines += ["", f"## `{name}`", "", SIGNATURE, "```python3", signature(name, function), "```", ""]
        lines += docstring(function)
        for each in formula_ids(function):
            link = f"[{each}](../measures.md#{known[each].anchor})"
            lines += ["", f"{link}: {cell(known[each].definition)} ({cell(known[each].citation)})"]
    return "\n".join(lines) + "\n"


def formula_ids(function: Any) -> list[str]:
    """Return the formulas of a function's results, from a call with a small array."""
    arguments = [EXAMPLE, UNITS] if "units" in inspect.signature(function).parameters else [EXAMPLE]
    return list(dict.fromkeys(_ids(function(*arguments))))


def _ids(result: Any) -> Iterator[str]:
    if hasattr(result, "formula_id"):
        yield result.formula_id
    elif is_dataclass(result):
        for field in fields(result):
            yield from _ids(getattr(result, field.name))
