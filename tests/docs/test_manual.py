"""The generated pages are current and complete, and their examples are commands that exist."""

from __future__ import annotations

import inspect
import re
import shlex
from typing import Any

import pytest
import typer
from manual.examples import CHAPTERS, EXAMPLES
from manual.exhibit_list import command as drawing
from manual.mathml import mathml
from manual.pages import DOCS, PAGES

from theodolite.cli.app import app
from theodolite.exhibits.registry import all_exhibits
from theodolite.measures.formula import OTHER, formulas, group_by_theme
from theodolite.measures.latex import LATEX
from theodolite.measures.references import OUR_OWN, REFERENCES, find_references

GROUP: Any = typer.main.get_command(app)


def parses(line: str) -> None:
    """Parse a command as the command line would, without running it."""
    words = shlex.split(line, comments=True)
    assert words[0] == "theodolite"
    GROUP.commands[words[1]].make_context(words[1], words[2:])


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == PAGES[name](), f"docs/{name} is old: `make docs-renew` renews it"


def test_every_verb_has_a_chapter_a_section_and_examples_that_parse() -> None:
    page = (DOCS / "reference/cli.md").read_text("utf-8")
    listed = [verb for chapter in CHAPTERS for verb in chapter.verbs]
    assert len(listed) == len(set(listed))
    for verb in GROUP.commands:
        assert verb in listed, f"{verb}: name it in a chapter of manual/examples.py"
        assert EXAMPLES.get(verb), f"{verb}: give an example in manual/examples.py"
        assert page.count(f"### `{verb}`\n") == 1
        for line in EXAMPLES[verb]:
            assert line.startswith(f"theodolite {verb}")
            parses(line)


def test_every_option_and_its_help_are_in_the_section_of_the_verb() -> None:
    page = (DOCS / "reference/cli.md").read_text("utf-8")
    sections = dict(re.findall(r"^### `([\w-]+)`\n(.*?)(?=^##|\Z)", page, flags=re.DOTALL | re.MULTILINE))
    for verb, command in GROUP.commands.items():
        for parameter in command.params:
            for option in [*parameter.opts, *parameter.secondary_opts]:
                if option.startswith("--") and option != "--help":
                    assert re.search(rf"`[^`]*{option}\b", sections[verb]), f"{verb} {option}"
            if isinstance(parameter.default, str | int) and not isinstance(parameter.default, bool):
                assert f"`{parameter.default}`" in sections[verb], f"{verb} {parameter.name}"


def test_an_example_that_does_not_parse_is_detected() -> None:
    with pytest.raises(Exception, match=r"(?i)no such option"):
        parses("theodolite show first --no-such-option")


def test_every_exhibit_is_listed_with_a_command_that_parses_and_its_picture() -> None:
    page = (DOCS / "reference/exhibits.md").read_text("utf-8")
    for exhibit in all_exhibits().values():
        assert f"### `{exhibit.name}`\n" in page
        parses(drawing(exhibit))
        if (DOCS / "gallery" / exhibit.paper / f"{exhibit.id}.png").is_file():
            assert f"gallery/{exhibit.paper}/README.md#{exhibit.id}" in page


def test_every_public_name_is_documented() -> None:
    import theodolite
    import theodolite.integrations
    import theodolite.report

    page = (DOCS / "reference/python.md").read_text("utf-8")
    for module in (theodolite, theodolite.integrations, theodolite.report):
        for name in module.__all__:
            if inspect.ismodule(getattr(module, name)):  # on a page of its own, or callable
                continue
            assert re.search(rf"^### (class )?`{module.__name__}\.{name}`$", page, flags=re.MULTILINE), name


def test_every_formula_has_a_theme_and_a_unique_anchor() -> None:
    found = formulas()
    themes = group_by_theme(found.values())
    assert OTHER not in themes, f"give these a theme in measures/formula.py: {themes.get(OTHER)}"
    assert sorted(each.id for held in themes.values() for each in held) == list(found)
    page = (DOCS / "measures.md").read_text("utf-8")
    headings = re.findall(r"^#+ (.*)$", page, flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings]
    assert len(anchors) == len(set(anchors))
    assert {formula.anchor for formula in found.values()} <= set(anchors)


def test_every_cited_work_is_listed_and_every_listed_work_is_cited() -> None:
    used = set()
    for formula in formulas().values():
        works = find_references(formula.citation)
        assert works or formula.citation.startswith(OUR_OWN), (
            f"{formula.id}: add the work to measures/references.py"
        )
        used |= {work.key for work, _ in works}
    assert used == {work.key for work in REFERENCES}
    assert len({work.key for work in REFERENCES}) == len(REFERENCES)


def test_typeset_formulas_belong_to_formulas_and_become_mathml() -> None:
    assert set(LATEX) <= set(formulas())
    for id_, latex in LATEX.items():
        made = mathml(latex)
        assert made.startswith("<math"), id_
        assert "\\" not in made, f"{id_}: a command that MathML was not made of"
