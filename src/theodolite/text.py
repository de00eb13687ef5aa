"""Text that every part of the package shares: plurals, labels, and number formats.

Several formats exist on purpose, because the readers differ. Pages and captions write a typographic minus (−) and
powers of ten (10⁶); terminal tables write ASCII digits that can be copied into a program. An undefined number is
an en dash everywhere.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

UNDEFINED = "–"
POPULATION_LABELS = {
    "all": "all positions",
    "without-first": "all positions except the first of each window",
    "without-massive": "all positions except massive ones",
    "without-sinks": "all positions except sinks, which are massive at some layer",
}
UNIT_LABELS = {"id": "vocabulary ids", "surface": "surface forms", "word": "words"}

_FILE_SUFFIXES = {".txt", ".jsonl", ".json", ".gz", ".parquet", ".csv", ".npy", ".npz", ".safetensors", ".gguf"}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LETTERS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


# Plurals and lists


def pluralize(count: float, one: str, many: str = "") -> str:
    """Return a count with its noun in the singular or the plural.

    >>> pluralize(1, "document"), pluralize(2000, "document"), pluralize(2, "study", "studies")
    ('1 document', '2,000 documents', '2 studies')
    """
    return f"{round(count):,} {one if round(count) == 1 else many or one + 's'}"


def join_words(words: Sequence[str], joint: str = "and") -> str:
    """Return a list as a sentence writes it.

    >>> join_words(["a"]), join_words(["a", "b"], "or"), join_words(["a", "b", "c"])
    ('a', 'a or b', 'a, b and c')
    """
    return f" {joint} ".join([", ".join(words[:-1]), *words[-1:]]) if len(words) > 1 else "".join(words)


# Labels of surveys and layers


def describe_pooling(settings: Mapping[str, Any]) -> str:
    """Return how a laboratory pooled positions.

    >>> describe_pooling({"pooling": "mean", "population": "without-sinks"})
    'pooling: mean, without sinks'
    """
    population = settings.get("population", "all")
    return f"pooling: {settings['pooling']}" + (f", {population.replace('-', ' ')}" if population != "all" else "")


def short_path(name: str, parts: int = 1) -> str:
    """Return the last parts of a path. The name of a model or corpus that is not a path is returned unchanged.

    >>> short_path("/data/runs/decoder/step-400", 2), short_path("texts/books.txt"), short_path("org/model")
    ('decoder/step-400', 'books.txt', 'org/model')
    """
    path = PurePath(name)
    is_path = (
        path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2 or path.suffix in _FILE_SUFFIXES
    )
    return "/".join(path.parts[-parts:]).lstrip("/") or name if is_path else name


def survey_name(facts: dict[str, Any]) -> str:
    """Return the name of a survey: its label, or its model and its corpus."""
    if facts.get("label"):
        return str(facts["label"])
    model, corpus = facts["model"], facts["corpus"]
    corpus_name = short_path(str(corpus["name"]))
    return f"{short_path(str(model['name']), 2)} on {corpus_name}" if model else corpus_name


def distinct_labels(names: Sequence[str], details: Sequence[str]) -> list[str]:
    """Return labels that all differ: equal names get their details, and labels that are still equal a number.

    >>> distinct_labels(["a", "b"], ["id", "id"]), distinct_labels(["a", "a", "a"], ["id", "word", "word"])
    (['a', 'b'], ['a, id', 'a, word (2)', 'a, word (3)'])
    """
    uses = Counter(names)
    labels = [
        f"{name}, {detail}" if uses[name] > 1 and detail else name
        for name, detail in zip(names, details, strict=True)
    ]
    uses = Counter(labels)
    return [f"{label} ({i})" if uses[label] > 1 else label for i, label in enumerate(labels, 1)]


# Numbers on pages and in captions


def format_number(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits; whole thousands are written out in full.

    >>> [format_number(x) for x in (0.93412, -1.5, 12345.6, 0.0000123, float("nan"))]
    ['0.9341', '−1.5', '12,346', '1.23×10⁻⁵', '–']
    """
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and (size >= 1e7 or size < 1e-3):
        return _power_of_ten(value, min(digits, 3))
    text = f"{value:,.0f}" if size >= 10 ** (digits - 1) else f"{float(f'{value:.{digits}g}'):g}"
    return text.replace("-", "−")


def format_aligned(value: float, digits: int = 4) -> str:
    """Return a number for a table column: like `format_number`, with trailing zeros, so that the digits line up.

    >>> [format_aligned(x) for x in (175.0, 0.5, 2.0, 0.0, 12345.6)]
    ['175.0', '0.5000', '2.000', '0', '12,346']
    """
    plain = 1e-3 <= abs(value) < 10 ** (digits - 1)
    return f"{value:#.{digits}g}".rstrip(".").replace("-", "−") if plain else format_number(value, digits)


def format_scientific(value: float, digits: int = 3) -> str:
    """Return a number with `digits` significant digits and a power of ten for large ones, as papers print it.

    Unlike `format_number` it never shows digits beyond the significant ones.

    >>> format_scientific(-0.98765), format_scientific(1234567.0), format_scientific(float("nan"))
    ('−0.988', '1.23×10⁶', '–')
    """
    if math.isnan(value):
        return UNDEFINED
    mantissa, _, power = f"{value:.{digits}g}".partition("e")
    raised = f"×10{str(int(power)).translate(_SUPERSCRIPTS)}" if power else ""
    return mantissa.replace("-", "−") + raised


def format_count(value: float) -> str:
    """Return a whole number in full, with separators.

    >>> format_count(1234567.0)
    '1,234,567'
    """
    return f"{round(value):,}".replace("-", "−") if math.isfinite(value) else UNDEFINED


def format_percent(value: float, digits: int = 3) -> str:
    """Return a share in percent.

    >>> format_percent(0.9768), format_percent(1.05)
    ('97.7%', '105%')
    """
    return f"{format_number(100 * value, digits)}%"


def format_short(value: float, digits: int = 4, *, letters_from: float = 1e3) -> str:
    """Return a number with a letter for thousands, millions, billions or trillions, for axes and narrow columns.

    >>> [format_short(x) for x in (0, 250, -20_000, 1.5e6, 1e8)], format_short(110_104_890, 3)
    (['0', '250', '−20k', '1.5M', '100M'], '110M')
    """
    size = abs(value)
    unit, letter = next((pair for pair in _LETTERS if size >= max(pair[0], letters_from)), (1.0, ""))
    return f"{value / unit:.{digits}g}{letter}".replace("-", "−")


def format_tick(value: float) -> str:
    """Return the label of a tick: like `format_short` from 10,000 on, and a power of ten below a thousandth.

    >>> [format_tick(x) for x in (0, 0.25, 5000, 20000, 3e6, 1e-4)]
    ['0', '0.25', '5000', '20k', '3M', '10⁻⁴']
    """
    return _power_of_ten(value, 3) if 0 < abs(value) < 1e-3 else format_short(value, 6, letters_from=1e4)


# Numbers in the terminal


def format_cell(value: Any) -> str:
    """Return a cell of any type for a table in the terminal: four significant digits, whole numbers in full.

    >>> format_cell(0.123456), format_cell(12345), format_cell(float("nan")), format_cell(123456.7)
    ('0.1235', '12,345', '–', '123,457')
    """
    import pandas as pd  # here, as `theodolite --help` needs text and not pandas

    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return UNDEFINED
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def format_decimal(value: float) -> str:
    """Return a number with three decimals below 10 and one above, where the size of the number is not known.

    >>> format_decimal(0.12345), format_decimal(1234.5), format_decimal(float("nan"))
    ('0.123', '1,234.5', '–')
    """
    return format_fixed(value, 3) if not abs(value) >= 10 else f"{value:,.1f}"


def format_fixed(value: float, decimals: int = 3) -> str:
    """Return a number with a fixed number of decimals, for columns of cosines, shares and probabilities.

    >>> format_fixed(0.98765), format_fixed(0.5, 1), format_fixed(float("nan"))
    ('0.988', '0.5', '–')
    """
    return UNDEFINED if math.isnan(value) else f"{value:.{decimals}f}"


def format_bytes(count: int) -> str:
    """Return a number of bytes with a unit.

    >>> format_bytes(3 * 2**30)
    '3.0 GB'
    """
    value, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.1f} {units[0]}" if units[0] != "bytes" else f"{count} bytes"


def _power_of_ten(value: float, digits: int) -> str:
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    raised = "10" + str(int(power)).translate(_SUPERSCRIPTS)
    return (raised if mantissa == "1" else f"{mantissa}×{raised}").replace("-", "−")


def encodable(text: str) -> str:
    """Return the text as tables can store it: a lone surrogate, such as from a file name, becomes \\udcXX.

    >>> encodable("odd \\udc80"), encodable("even")
    ('odd \\\\udc80', 'even')
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_stream_name(name: str) -> bool:
    """Return whether a layer of this name is part of a block, and does not belong to the residual stream.

    >>> [is_stream_name(name) for name in ("block 3", "block 3/k", "encoder block 3/v/head 0", "layers/0/mlp")]
    [False, True, True, False]
    """
    return re.match(r"(?:.+ )?(?:block|stage) \d+/", name) is not None


def list_layers(known: Sequence[int]) -> str:
    """Return the layers in words, for a message.

    >>> list_layers([0, 1, 2]), list_layers([0, 6]), list_layers([3])
    ('layers 0 to 2', 'layers 0, 6', 'layer 3')
    """
    if len(known) > 1 and list(known) == list(range(len(known))):
        return f"layers 0 to {known[-1]}"
    return f"layer{'s' if len(known) > 1 else ''} {', '.join(map(str, known))}"
