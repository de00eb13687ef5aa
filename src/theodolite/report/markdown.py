"""The report as Markdown, for a pull request: findings, a compact table, cautions and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from theodolite.errors import InputError
from theodolite.measures.formula import formulas
from theodolite.naming import several
from theodolite.report.findings import Finding, findings, warnings
from theodolite.report.findings.labels import labels
from theodolite.report.findings.together import cautions, together
from theodolite.report.findings.training import is_series, training
from theodolite.report.findings.warnings import too_few
from theodolite.report.markdown_tables import extremes_table, layer_table, side_by_side, step_table
from theodolite.report.markdown_text import code, inside_html, name, prose
from theodolite.report.numbers import count
from theodolite.report.rows import layer_rows, number, populations
from theodolite.report.strongest import extremes
from theodolite.report.summary import sentences
from theodolite.report.tables import Tables
from theodolite.report.vectors import of_vectors, told_of_vectors

LIMIT = 60_000
"""A comment on GitHub holds 65,536 characters; the rest is left for what people write around it."""
NOTHING = "No number is defined that a finding could be made from."


class Block(NamedTuple):
    """A piece of the report, what it is called where there is no room for it, and whether it goes first."""

    text: str
    name: str
    first: bool = True


def render_markdown(surveys: Sequence[Tables | Mapping[str, Any]]) -> str:
    """Return the report on surveys and series as Markdown, at most 60,000 characters, encodable as UTF-8.

    A series is given as `Tables` too: its `layers` have a column `step`.
    """
    read = [Tables.of(one) for one in surveys]
    if not read:
        raise InputError("surveys: wanted at least one survey to report on, got none. Pass a list of Tables.")
    made = [one for one in read if not is_series(one)]
    trained = [one for one in read if is_series(one)]
    alone = len(read) == 1
    blocks = [Block(f"# {_title(read)}", "the title")]
    blocks += _one(read[0]) if alone and made else _many(made) if made else []
    blocks += [block for series in trained for block in _series(series, alone=alone)]
    shown = [one for tables in read for one in (training(tables) if is_series(tables) else findings(tables))]
    blocks += [_definitions(shown), _provenance(read)]
    return _fitted(blocks)


def _title(read: list[Tables]) -> str:
    if len(read) == 1:
        return prose(name(read[0].name))
    series = sum(map(is_series, read))
    parts = [several(len(read) - series, "survey")] if series < len(read) else []
    return " and ".join([*parts, *([several(series, "series", "series")] if series else [])])


def _one(tables: Tables) -> list[Block]:
    return [
        Block(prose(sentences(tables)), "what was surveyed"),
        Block(f"## Findings\n\n{_listed(findings(tables)) or NOTHING}", "findings"),
        Block(_cautions(_minded(tables), "## Cautions"), "cautions"),
        *_layers(tables),
        *_extremes(tables),
    ]


def _layers(tables: Tables) -> list[Block]:
    """Return the first population's table, and the others folded; one that is the same is only named."""
    tabled = {each: layer_table(tables, each) for each in populations(tables)}
    if not tabled:
        return []
    first, *others = tabled
    same = [each for each in others if tabled[each] == tabled[first]]
    alike = f" The same in {' and '.join(map(code, same))}." if same else ""
    return [
        Block(f"## Layers\n\nPopulation {code(first)}.{alike}\n\n{tabled[first]}", "the layers"),
        *(_folded(f"Layers, {each}", tabled[each]) for each in others if each not in same),
    ]


def _many(surveys: list[Tables]) -> list[Block]:
    named = list(zip(labels(surveys), surveys, strict=True))
    if len(named) == 1:
        return [_survey(*named[0])]
    read = "\n".join(f"- {prose(sentences(tables))}" for _, tables in named[:20])
    said = _listed(together(surveys))
    return [
        Block(read, "what each survey read"),
        Block(f"## Side by side\n\n{side_by_side(surveys)}", "surveys side by side"),
        Block(f"## What differs\n\n{said}" if said else "", "what differs"),
        Block(_cautions(cautions(surveys), "## Cautions"), "cautions"),
        *(_survey(label, tables) for label, tables in named),
    ]


def _survey(label: str, tables: Tables) -> Block:
    known = populations(tables)
    parts = [
        prose(sentences(tables)),
        _listed(findings(tables)) or NOTHING,
        _cautions(_minded(tables), "**Cautions**"),
        f"Population {code(known[0])}:\n\n{layer_table(tables, known[0])}" if known else "",
    ]
    return _folded(name(label), "\n\n".join(part for part in parts if part))


def _series(series: Tables, *, alone: bool) -> list[Block]:
    known = populations(series)
    steps = sorted({number(row, "step") for row in layer_rows(series, known[0])}) if known else []
    ends = f", {count(steps[0])} to {count(steps[-1])}" if steps else ""
    over = f" It was read at {several(len(steps), 'step')}{ends}."
    tabled = {each: step_table(series, each) for each in known}
    told = {each: text for i, (each, text) in enumerate(tabled.items()) if text not in list(tabled.values())[:i]}
    return [
        Block("" if alone else f"## {prose(name(series.name))}", series.name),
        Block(prose(sentences(series)) + over, f"what {series.name} is"),
        Block(_listed(training(series)) or NOTHING, f"what changed in {series.name}"),
        *(_folded(f"Means over blocks, {each}", text) for each, text in told.items()),
    ]


def _listed(found: Sequence[Finding]) -> str:
    return "\n".join(
        f"- **{prose(one.figure)}** {prose(one.headline)}{f' ({code(one.formula)})' if one.formula else ''}<br>"
        f"{prose(one.text)}"
        for one in found
    )


def _minded(tables: Tables) -> list[str]:
    return [text for text in (too_few(tables), *warnings(tables)) if text]


def _cautions(said: Sequence[str], head: str) -> str:
    return "\n".join([head, "", *(f"- {prose(text)}" for text in said)]) if said else ""


def _folded(title: str, inside: str) -> Block:
    if not inside:
        return Block("", title)
    # Markdown is read again after an empty line.
    return Block(f"<details><summary>{inside_html(title)}</summary>\n\n{inside}\n\n</details>", title, first=False)


def _extremes(tables: Tables) -> list[Block]:
    blocks, vectors = [], of_vectors(tables)
    for one in extremes(tables):
        lead = prose(f"Population {one.population}: {told_of_vectors(one.chosen) if vectors else one.chosen}.")
        title = "Groups at the extremes" if vectors else f"Units at the extremes, {one.layer_name}"
        blocks.append(_folded(title, f"{lead}\n\n{extremes_table(one)}"))
    return blocks


def _definitions(found: Sequence[Finding]) -> Block:
    known = formulas()
    wanted = sorted({one.formula for one in found if one.formula in known})
    lines = [f"- {code(id)}: {prose(known[id].definition)} {prose(known[id].citation)}." for id in wanted]  # noqa: A001
    return _folded("Definitions of the measures", "\n".join(lines))


def _provenance(read: Sequence[Tables]) -> Block:
    lines = "<br>".join(_origin(tables) for tables in read[:20])
    return Block(f"---\n\n<sub>{lines}</sub>", "where the numbers come from")


def _origin(tables: Tables) -> str:
    facts = tables.facts
    versions, times = _part(facts, "versions"), _part(facts, "times")
    made = [f"{tool} {versions[tool]}" for tool in ("theodolite", "torch", "transformers") if versions.get(tool)]
    sums = [
        f"{key} {str(part['sha256'])[:12]}"
        for key in ("model", "corpus")
        if (part := _part(facts, key)).get("sha256")
    ]
    when = [str(times["started"])] if times.get("started") else []
    told = [prose(name(part)) for part in (tables.name, *made, *sums, *when)]
    return " · ".join(told)


def _part(facts: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = facts.get(key)
    return value if isinstance(value, Mapping) else {}


def _fitted(blocks: Sequence[Block]) -> str:
    """Put together what there is room for, what goes first first, and say what there was none for."""
    room = LIMIT - 1_000  # for the last line
    kept = set()
    for i in sorted((i for i, block in enumerate(blocks) if block.text), key=lambda i: not blocks[i].first):
        if len(blocks[i].text) + 2 <= room:
            room -= len(blocks[i].text) + 2
            kept.add(i)
    texts = [block.text for i, block in enumerate(blocks) if i in kept]
    left_out = [block.name for i, block in enumerate(blocks) if block.text and i not in kept]
    if left_out:
        more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        listed = ", ".join(prose(name(each)) for each in left_out[:5])
        why = f"Left out, to stay below {count(LIMIT)} characters"
        texts.append(f"{why}: {listed}{more}. `--format html` shows all.")
    return "\n\n".join(texts) + "\n"
