from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from theodolite.errors import InputError
from theodolite.escaping import escape_markdown, escape_summary, token_code
from theodolite.report import Tables
from theodolite.report.markdown import LAYERS, LIMIT, render_markdown

Make = Callable[..., Tables]
NASTY = (
    "<script>alert(1)</script> | `x` *y* _z_ [a](b) ![c](d) ~~e~~ \u202e \ud800 "
    "\n# f\n\n- g @you #12 $h$ www.i.org"
)
ALLOWED = set("h1 h2 p ul li strong code br table thead tbody tr th td details summary hr sub span".split())


class Seen(HTMLParser):
    """What a reader sees, and the elements that make it."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.cells: list[int] = []
        self.open: list[str] = []
        self.feed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("br", "hr"):
            self.open.append(tag)
        if tag == "tr":
            self.cells.append(0)
        if tag in ("td", "th"):
            self.cells[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("br", "hr"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def series(tables: Tables) -> Tables:
    frames = [tables.layers.assign(step=step, mean_cosine=0.1 * step) for step in (0, 1, 2)]
    return replace(tables, name="a series", layers=pd.concat(frames), tokens=pd.DataFrame(), units=pd.DataFrame())


def test_a_report_of_one_survey_has_its_parts_in_order(tables: Tables) -> None:
    made = render_markdown([tables])
    heads = [line for line in made.splitlines() if line.startswith(("# ", "## ", "<details>"))]
    assert heads == [
        "# minilm-l6 on chitchat",
        "## Findings",
        "## Cautions",
        "## Layers",
        "<details><summary>Layers, without-first</summary>",
        "<details><summary>Layers, without-massive</summary>",
        "<details><summary>Units at the extremes, block 4</summary>",
        "<details><summary>Units at the extremes, final norm</summary>",
        "<details><summary>Definitions of the measures</summary>",
    ]
    assert "minilm-l6 (bert, float32, cpu) was run on 10,000 documents of chitchat." in made
    assert re.search(
        r"- \*\*0\.\d+\*\* highest mean cosine, at block \d \(`mean-cosine/all-pairs`\)<br>The average", made
    )
    assert made.splitlines()[-1].startswith(
        "<sub>minilm-l6 on chitchat · theodolite 0.1.0 · torch 2.9 · model 3f3f3f"
    )


def test_every_row_of_a_table_has_all_its_cells(tables: Tables) -> None:
    seen = Seen(render_markdown([tables]))
    assert seen.open == []
    assert set(seen.cells) == {len(LAYERS) + 1, 4}  # layers; units at the extremes
    assert max(seen.cells) <= 12


def test_numbers_of_the_table_are_those_of_the_survey(tables: Tables) -> None:
    made = render_markdown([tables])
    row = tables.layers[(tables.layers["layer"] == 3) & (tables.layers["population"] == "all")].iloc[0]
    cells = next(line for line in made.splitlines() if line.startswith("| block 3 ")).strip("| ").split(" | ")
    expected = [row["n"], row["q"], row["m"] / row["q"], *(row[column] for column in list(LAYERS)[3:])]
    shown = [float(cell.replace(",", "").replace("−", "-")) for cell in cells[1:]]
    assert shown == pytest.approx([float(value) for value in expected], rel=1e-3)  # four digits are shown


def test_hostile_names_and_tokens_show_as_text(make_tables: Make) -> None:
    tables = make_tables(NASTY, units=16, layers=3)
    tables.facts["model"]["name"] = NASTY
    tables.facts["corpus"]["name"] = NASTY
    tables.facts["versions"]["theodolite"] = NASTY
    # An object column, as a lone surrogate has no place in an Arrow string.
    layers = tables.layers.assign(undefined=None).astype({"layer_name": object})
    layers.loc[layers["layer"] == 2, "layer_name"] = NASTY
    tables = replace(tables, layers=layers)
    for surveys in ([tables], [tables, tables], [tables, series(tables)]):
        made = render_markdown(surveys)
        made.encode("utf-8")
        seen = Seen(made)
        assert seen.open == []
        assert seen.tags <= ALLOWED
        assert "\u202e" not in made
        assert "<script>alert(1)</script> | `x` *y* _z_ [a](b) ![c](d) ~~e~~ U+202E U+D800 ↵# f" in seen.text
        assert not re.search(r"@you|#12|www\.i", made)
        assert len(set(seen.cells)) <= 6  # no row was cut or grew at a pipe


def test_all_hostile_tokens_are_present(make_tables: Make) -> None:
    words = Seen(render_markdown([make_tables(units=16, layers=2)])).text
    for shown in ("<script>alert(1)</script>", "&amp;", "U+D800", "U+202E", "\U0001f600", "(empty)", "##ing", "↵"):
        assert shown in words


@pytest.mark.parametrize(
    "text", ["a|b", "`", "``", "\\", "\\|", "*_*", "<!--", "-->", "&lt;", "](", "@a", ":+1:", "#1", "$x$"]
)
def test_any_text_is_shown_verbatim(text: str) -> None:
    escaped = [escape_markdown(text), token_code(text), escape_summary(text)]
    table = f"| a | b |\n| --- | --- |\n| {escaped[0]} | {escaped[1]} |"
    seen = Seen(f"{table}\n\n<details><summary>{escaped[2]}</summary>\n\nx {escaped[0]}\n\n</details>")
    assert seen.cells == [2, 2]
    assert seen.text.replace("\u200b", "").count(text) == 4


def test_a_population_that_is_the_same_is_only_named(make_tables: Make) -> None:
    tables = make_tables(layers=3, populations=("all",))
    both = replace(tables, layers=pd.concat([tables.layers, tables.layers.assign(population="without-massive")]))
    made = render_markdown([both])
    assert "Population `all`. Identical in `without-massive`." in made
    assert "Layers, without-massive" not in made


def test_several_surveys_are_compared(make_tables: Make) -> None:
    made = render_markdown([make_tables("a", layers=3), make_tables("b", layers=3, peak=0.12)])
    assert "# 2 surveys" in made
    assert "| survey | highest mean cosine | highest SVD anisotropy | SVD anisotropy without massive |" in made
    assert "## Differences" in made
    assert "<details><summary>a</summary>" in made
    assert Seen(made).open == []


def test_a_series_has_a_table_of_steps(tables: Tables) -> None:
    made = render_markdown([series(tables)])
    assert "It was measured at 3 steps, 0 to 2." in made
    assert "**0 → 0.2** the mean cosine, step 0 to 2" in made
    assert "| 2 | 0.2000 |" in made
    assert "# 1 survey and 1 series" in render_markdown([tables, series(tables)])


def test_blocks_beyond_the_limit_are_omitted_and_named(make_tables: Make) -> None:
    tables = make_tables(layers=40, units=20)
    surveys = [replace(tables, name=f"model {i} on chitchat") for i in range(15)]
    made = render_markdown(surveys)
    assert len(made) <= LIMIT
    assert "## Side by side" in made
    assert re.search(r"Omitted to stay below 60,000 characters: model \d+ on chitchat.* and \d+ more\.", made)
    assert Seen(made).open == []


def test_a_deep_survey_with_long_names_stays_below_the_limit(make_tables: Make) -> None:
    tables = make_tables("m" * 9000, layers=120, units=20)
    tables.layers["layer_name"] = tables.layers["layer_name"] + "|" * 400
    assert len(render_markdown([tables])) <= LIMIT


def test_almost_nothing_is_still_a_report(tables: Tables) -> None:
    bare = Tables("bare", {}, tables.layers[["layer", "population"]], pd.DataFrame(), pd.DataFrame())
    none = Tables("none", {}, *[pd.DataFrame()] * 3)
    for surveys in ([bare], [none], [bare, none], [bare, tables]):
        made = render_markdown(surveys)
        assert "No measure is defined, so there are no findings." in made
        assert Seen(made).open == []
    undefined = replace(tables, layers=tables.layers.assign(mean_cosine=np.nan))
    assert "nan" not in render_markdown([undefined])


def test_no_survey_is_rejected() -> None:
    with pytest.raises(InputError, match="expected at least one survey"):
        render_markdown([])
