"""The runner of the docs' examples can fail: each planted wrong example is detected; a right one passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.pages import blocks, indented_commands
from tests.docs.running import NotRunError, Page, check_usage


def run(folder: Path, text: str) -> Page:
    """Run a page of this text, as those of the docs are run."""
    (folder / "page.md").write_text(text.replace("~~~", "```"), "utf-8")
    page_run = Page()
    for block in blocks(folder / "page.md"):
        page_run.take(block)
    return page_run


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


WRONG = {
    "Python that fails": ("~~~python\n1 / 0\n~~~\n", "page.md:1.*ZeroDivisionError"),
    "Python that ends with a message": ("~~~py\nraise SystemExit('no')\n~~~\n", "ended with no"),
    "a name of no earlier block": ("~~~python\nx = 1\n~~~\n\n~~~python\ny\n~~~\n", "page.md:5.*NameError"),
    "a verb that is not": ("~~~sh\ntheodolite surveying x\n~~~\n", "no such verb"),
    "an option that is not": ("~~~sh\ntheodolite models --jason\n~~~\n", "--jason"),
    "a folder that is not": ("~~~sh\ntheodolite show nowhere\n~~~\n", "ended with 2: .*nowhere"),
    "a command neither run nor excused": ("~~~sh\nmake demo\n~~~\n", "`make demo` is neither run nor excused"),
    "a language neither run nor excused": ("~~~ruby\nputs 1\n~~~\n", "'ruby' is neither run nor excused"),
    "excused, with an option that is not": (
        "<!-- not run: takes minutes -->\n~~~sh\ntheodolite survey m --corpus c --out o --limits 3\n~~~\n",
        "--limits",
    ),
    "excused, with an option too few": (
        "<!-- not run: takes minutes -->\n~~~sh\ntheodolite survey m --out o\n~~~\n",
        "Missing option",
    ),
    "an output that was not printed": (
        "~~~sh\ntheodolite corpora\n~~~\n\n~~~text\nname kind pages\n~~~\n",
        "shows 'name kind pages', which was not printed",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_example_is_detected(name: str, tmp_path: Path) -> None:
    text, words = WRONG[name]
    with pytest.raises(NotRunError, match=f"(?s){words}"):
        run(tmp_path, text)


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("<!-- not run: -->", "requires a reason"),
        ("<!-- in tests: 3 -->", "requires OLD -> NEW"),
        ("<!-- in tests: 3 -> 4 -->", "'3', which is not in the block"),
        ("<!-- not run: why -->\n\nA paragraph.", "stands before no block"),
    ],
)
def test_an_invalid_comment_is_detected(comment: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=words):
        run(tmp_path, f"{comment}\n~~~python\nx = 1\n~~~\n")


def test_python_that_does_not_parse_is_detected_even_if_excused(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        run(tmp_path, "<!-- not run: needs a hub -->\n~~~python\nx = = 1\n~~~\n")


def test_blocks_share_names_and_a_folder_and_are_made_smaller(tmp_path: Path) -> None:
    page = """
Text.

<!-- in tests: range(10) -> range(3) -->
~~~python
numbers = list(range(10))
~~~

1. In a list:

   ~~~python
   from pathlib import Path

   Path("numbers.txt").write_text(str(numbers))
   print("so many:", len(numbers))
   ~~~

   ~~~text
   so many: 10
   ~~~

<!-- not run: needs a model hub -->
~~~sh
pip install .
theodolite survey bert-base-uncased --corpus books.txt --out books
~~~

~~~sh
theodolite models --json > models.json    # a comment
theodolite \\
  corpora
~~~

~~~text
name          kind    documents ...
chitchat      text        1,000
~~~
"""
    page_run = run(tmp_path, page)
    assert page_run.names["numbers"] == [0, 1, 2]
    assert (tmp_path / "numbers.txt").read_text() == "[0, 1, 2]"
    assert "minilm-l6" in (tmp_path / "models.json").read_text()
    assert "chitchat" in page_run.printed


def test_usage_in_the_text_is_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "    theodolite show DIR [--population all]\n        [--colours x]\n\nAnd `theodolite show DIR --json`,\n"
        "`theodolite VERB --help`.\n\n```sh\ntheodolite show --ignored-here\n```\n",
        "utf-8",
    )
    usage, quoted, other = indented_commands(page)
    check_usage(quoted, "page.md")
    check_usage(other, "page.md")
    with pytest.raises(NotRunError, match="show has no option --colours"):
        check_usage(usage, "page.md")
