"""python -m manual: regenerate the pages of docs/ that are made from the code."""

from __future__ import annotations

from manual.pages import DOCS, PAGES


def main() -> None:
    """Write every page that has changed, and print its name."""
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if not path.is_file() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.resolve().relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
