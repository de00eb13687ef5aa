import html

import pytest

from theodolite.escaping import escape_html, show_token


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" the", "␣the"),
        ("\n", "↵"),
        ("", "(empty)"),
        ("\ud800", "U+D800"),
        ("a\u202eb", "aU+202Eb"),
        ("\x00", "U+0000"),
        ("##ing", "##ing"),
        ("&amp;", "&amp;"),
        ("\u0301", "◌\u0301"),
        ("<b>", "<b>"),
        ("x" * 300, f"{'x' * 40}… 300 characters"),
    ],
)
def test_a_token_is_shown_verbatim(token: str, shown: str) -> None:
    assert show_token(token) == shown


def test_every_code_point_below_the_astral_planes_can_be_written() -> None:
    for code in range(0x10000):
        assert escape_html(chr(code)).encode("utf-8")
        assert show_token(chr(code)).encode("utf-8")


def test_prose_keeps_its_spaces_and_loses_its_markup() -> None:
    assert escape_html("a <b> & 'c'\n\u202e") == "a &lt;b&gt; &amp; &#x27;c&#x27;\nU+202E"
    assert html.unescape(escape_html('say "yes"')) == 'say "yes"'
