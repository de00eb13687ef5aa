"""python -m gallery REPRODUCTIONS DOCS: write reduced pictures of reproductions, and pages of them, to DOCS."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from PIL import Image

WIDTH, COLOURS, MOST_BYTES = 800, 64, 5_000_000
BRIDGE = "bridge"
"""The folder of REPRODUCTIONS that contains folders written by `theodolite bridge`, and its page."""
PAGES = {name: f"{name}.md" for name in ("norm-variance", "bert-spaces", "dynamics")}


def main() -> None:
    """Replace the pictures and the pages; fail if they exceed 5 MB."""
    parser = argparse.ArgumentParser(prog="python -m gallery", description=__doc__)
    parser.add_argument(
        "reproductions", type=Path, help="folder that contains folders written by `theodolite reproduce`"
    )
    parser.add_argument("docs", type=Path, help="folder for the pictures")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.docs, ignore_errors=True)
    listed = [
        write_paper(json.loads(index.read_text("utf-8")), index.parent, arguments.docs / index.parent.name)
        for index in sorted(arguments.reproductions.glob("*/index.json"))
    ]
    bridges = sorted((arguments.reproductions / BRIDGE).glob("*/laboratory.json"))
    if bridges:
        listed.append(write_bridges([path.parent for path in bridges], arguments.docs / BRIDGE))
    (arguments.docs / "README.md").write_text(contents(listed, arguments.docs), encoding="utf-8")
    size = sum(path.stat().st_size for path in arguments.docs.rglob("*") if path.is_file())
    print(f"{sum(count for _, _, count in listed)} pictures, {size / 1e6:.2f} MB: {arguments.docs / 'README.md'}")
    if size > MOST_BYTES:
        raise SystemExit(f"the limit is {MOST_BYTES / 1e6:.0f} MB; lower WIDTH or COLOURS in gallery/__main__.py")


def write_paper(made: dict[str, Any], reproduction: Path, docs: Path) -> tuple[str, str, int]:
    """Write the pictures and the page of one paper; return its name, its models and the number of pictures."""
    drawn = [row for row in made["exhibits"] if row["state"] == "drawn"]
    docs.mkdir(parents=True)
    for row in drawn:
        shrink(reproduction / row["files"]["png"], docs / Path(row["files"]["png"]).name)
    (docs / "README.md").write_text(page(made, drawn), encoding="utf-8")
    return made["paper"], models_of(made), len(drawn)


def write_bridges(bridges: list[Path], docs: Path) -> tuple[str, str, int]:
    """Write the heat maps of bridges and their page; return its name, the models and the number of pictures."""
    docs.mkdir(parents=True)
    lines = [
        "# `bridge`\n",
        "The similarity of layers, drawn by `make gallery`. [How to draw them for your own models, and how to "
        "read them](../../bridge.md). Do not edit: the next `make gallery` overwrites this page.\n",
    ]
    models = []
    for folder in bridges:
        facts = json.loads((folder / "laboratory.json").read_text("utf-8"))
        names = [facts[key]["name"] for key in ("model", "model_b") if facts[key] is not None]
        models += names
        shrink(folder / "cka.png", docs / f"{folder.name}.png", 256)  # shades are numbers here
        title = f"CKA of the layers of {' and '.join(names)}"
        about = f"{title}, {facts['positions']['matched']:,} positions of {facts['corpus']['name']}."
        lines.append(f"## {folder.name}\n\n{_plain(about)}\n\n![{_plain(title)}]({folder.name}.png)\n")
    (docs / "README.md").write_text("\n".join(lines), encoding="utf-8")
    return BRIDGE, ", ".join(f"`{name}`" for name in dict.fromkeys(models)), len(bridges)


def contents(listed: list[tuple[str, str, int]], docs: Path) -> str:
    """Return the page that lists the others, with a thumbnail of every picture."""
    lines = ["# Gallery\n", "Drawn by `make gallery`, which overwrites them. Pictures link to their pages.\n"]
    for paper, models, count in listed:
        lines += [f"## [`{paper}`]({paper}/README.md)\n", f"{count} picture{'s' * (count > 1)} of {models}.\n"]
        lines += ['<div class="gallery" markdown="1">\n']
        lines += [
            f"[![{picture.stem}]({paper}/{picture.name}) {picture.stem}]({paper}/README.md#{picture.stem})"
            for picture in sorted((docs / paper).glob("*.png"), key=_natural_order)
        ]
        lines += ["\n</div>\n"]
    return "\n".join(lines)


def _natural_order(picture: Path) -> list[tuple[int, str]]:
    """Return a key by which fig2 comes before fig10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", picture.stem)]


def models_of(made: dict[str, Any]) -> str:
    """Return the names of the models, without laboratories that use no model."""
    rows = [*made["surveys"], *(row for row in made["laboratories"] if row["model"] != row["laboratory"])]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(row["model"] for row in rows))


def shrink(picture: Path, out: Path, colours: int = COLOURS) -> None:
    """Write a picture with a smaller width, fewer colours and no metadata.

    Colours are chosen by how different they are. Chosen by area, the few pixels of coloured marks would share one.
    """
    with Image.open(picture) as found:
        image = found.convert("RGB")
    if image.width > WIDTH:
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
    palette = image.quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    palette.save(out, optimize=True)


def page(made: dict[str, Any], drawn: list[dict[str, Any]]) -> str:
    """Return the page of all pictures as Markdown."""
    about = PAGES.get(made["paper"], "anisotropy.md")
    head = (
        f"# `{made['paper']}` on {models_of(made)}\n\n"
        f"Drawn by `make gallery` from surveys of {made['corpus']}. [How to draw them for your own models, and "
        f"how to read them](../../{about}). Do not edit: the next `make gallery` overwrites this page.\n"
    )
    return "\n".join([head, *map(_entry, drawn)])


def _entry(row: dict[str, Any]) -> str:
    number = row["name"].partition("/")[2] + (f", {row['edition']}" if row["edition"] else "")
    picture = f"![{_plain(row['caption'])}]({Path(row['files']['png']).name})"
    return f"## {number}\n\n{_plain(row['title'])}\n\n{picture}\n"


def _plain(text: str) -> str:
    """Return text that Markdown shows literally."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


if __name__ == "__main__":
    main()
