"""python -m gallery REPRODUCTION DOCS: put a reproduction's pictures, made small, and a page of them into DOCS."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from PIL import Image

WIDTH, COLOURS, MOST_BYTES = 1000, 64, 3_000_000


def main() -> None:
    """Replace the pictures and the page; refuse to leave more than 3 MB."""
    parser = argparse.ArgumentParser(prog="python -m gallery", description=__doc__)
    parser.add_argument("reproduction", type=Path, help="folder that `theodolite reproduce` left")
    parser.add_argument("docs", type=Path, help="folder for the pictures")
    arguments = parser.parse_args()
    made = json.loads((arguments.reproduction / "index.json").read_text("utf-8"))
    drawn = [row for row in made["exhibits"] if row["state"] == "drawn"]
    arguments.docs.mkdir(parents=True, exist_ok=True)
    for old in arguments.docs.glob("*.png"):
        old.unlink()
    for row in drawn:
        shrink(arguments.reproduction / row["files"]["png"], arguments.docs / Path(row["files"]["png"]).name)
    (arguments.docs / "README.md").write_text(page(made, drawn), encoding="utf-8")
    size = sum(path.stat().st_size for path in arguments.docs.iterdir())
    print(f"{len(drawn)} pictures, {size / 1e6:.2f} MB: {arguments.docs / 'README.md'}")
    if size > MOST_BYTES:
        raise SystemExit(
            f"wanted at most {MOST_BYTES / 1e6:.0f} MB; lower WIDTH or COLOURS in gallery/__main__.py"
        )


def shrink(picture: Path, out: Path) -> None:
    """Write a picture narrower, in few colours and without its metadata."""
    with Image.open(picture) as found:
        image = found.convert("RGB")
    if image.width > WIDTH:
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(out, optimize=True)


def page(made: dict[str, Any], drawn: list[dict[str, Any]]) -> str:
    """Return the page of all pictures as Markdown."""
    models = ", ".join(f"`{name}`" for name in dict.fromkeys(row["model"] for row in made["surveys"]))
    head = (
        f"# `{made['paper']}` on {models}\n\n"
        f"Drawn by `make gallery` from surveys of `{made['corpus']}`; [how to draw them of your own models, "
        "and what they say](../norm-variance.md). Do not edit: the next `make gallery` writes this page again.\n"
    )
    return "\n".join([head, *map(_entry, drawn)])


def _entry(row: dict[str, Any]) -> str:
    number = row["name"].partition("/")[2] + (f", {row['edition']}" if row["edition"] else "")
    picture = f"![{_plain(row['caption'])}]({Path(row['files']['png']).name})"
    return f"## {number}\n\n{_plain(row['title'])}\n\n{picture}\n"


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


if __name__ == "__main__":
    main()
