"""python -m manual: write the generated pages of docs/ again."""

from __future__ import annotations

from manual.pages import DOCS, PAGES


def main() -> None:
    """Write every page that is not as it would be made now, and name it."""
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if not path.is_file() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
