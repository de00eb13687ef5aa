"""docs/reference/exhibits.md: every exhibit, what it needs, the command that draws it, and its picture."""

from __future__ import annotations

from pathlib import Path

from manual.markdown import DO_NOT_EDIT, NOT_RUN
from theodolite.cli.markdown import escape_markdown, slug
from theodolite.exhibits.exhibit import Exhibit
from theodolite.exhibits.registry import all_exhibits

PAPERS = {
    "norm-variance": ("Norm and variance", "Yamagiwa and Shimodaira 2024", "norm-variance.md"),
    "anisotropy-inherent": ("Is anisotropy inherent?", "Godey et al. 2023", "anisotropy.md"),
    "dynamics": ("The shape of learning", "Razzhigaev et al. 2024", "dynamics.md"),
    "bert-spaces": ("BERT's spaces", "Luisto 2024", "bert-spaces.md"),
    "bridge": ("Bridge", "not of a paper", "bridge.md"),
}
HEAD = f"""\
# Exhibits

{DO_NOT_EDIT}

The figures and tables of the papers, by their numbers, and some additional ones. `theodolite exhibits` lists them
in the terminal. `theodolite reproduce PAPER --model MODEL --corpus CORPUS --out DIR` runs the missing surveys and
draws all exhibits of a paper. A figure is written as `.png`, `.svg` or `.pdf`, a table also as `.csv`, `.md` or
`.json`. `--data FILE.csv` writes the plotted numbers. Each entry lists the options it supports;
[`exhibit`](cli.md#exhibit) describes them.
"""


def page(docs: Path) -> str:
    """Return the page, with links to the pictures in docs/gallery."""
    found = all_exhibits()
    papers = [*PAPERS, *sorted({exhibit.paper for exhibit in found.values()} - set(PAPERS))]
    held = {paper: [e for e in found.values() if e.paper == paper] for paper in papers}
    lines = [HEAD]
    lines += [
        f"- [`{paper}`](#{slug(_title(paper))}): {len(every)} exhibits" for paper, every in held.items() if every
    ]
    for paper, every in held.items():
        lines += ["", *_chapter(paper, docs)] if every else []
        for exhibit in every:
            lines += ["", *_entry(exhibit, picture(exhibit, every, docs))]
    return "\n".join(lines) + "\n"


def picture(exhibit: Exhibit, every: list[Exhibit], docs: Path) -> str:
    """Return the id of its picture in the gallery: its own, or that of an exhibit drawn by the same function."""
    for other in [exhibit, *(each for each in every if each.make is exhibit.make)]:
        if (docs / "gallery" / other.paper / f"{other.id}.png").is_file():
            return other.id
    return ""


def command(exhibit: Exhibit) -> str:
    """Return the command that draws it."""
    ending = "md" if exhibit.kind == "table" else "png"
    return f"theodolite exhibit {exhibit.name} DIR... --out {exhibit.id}.{ending}"


def _title(paper: str) -> str:
    return PAPERS[paper][0] if paper in PAPERS else paper


def _chapter(paper: str, docs: Path) -> list[str]:
    if paper not in PAPERS:
        return [f"## {paper}"]
    title, authors, about = PAPERS[paper]
    more = f" See [how to read them](../{about})" if (docs / about).is_file() else ""
    gallery = f"[gallery](../gallery/{paper}/README.md)"
    pictures = f"{more} and the {gallery}." if more else f" See the {gallery}."
    return [f"## {title}", "", f"`{paper}`: {authors}.{pictures}"]


def _entry(exhibit: Exhibit, shown: str) -> list[str]:
    options = ", ".join(f"`--{'layer' if option == 'layers' else option}`" for option in exhibit.options)
    facts = f"Needs {escape_markdown(exhibit.needed)}." + (f" Options: {options}." if options else "")
    facts += f" [Picture](../gallery/{exhibit.paper}/README.md#{slug(shown)})." if shown else ""
    lines = [f"### `{exhibit.name}`", "", f"{escape_markdown(exhibit.title)}. {facts}", ""]
    return [*lines, NOT_RUN, "```sh", command(exhibit), "```"]
