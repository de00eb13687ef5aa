import html

import pytest

from theodolite.report.text import escape, readable


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" the", '<bdi><span class="mark">␣</span>the</bdi>'),
        ("\n", '<bdi><span class="mark">↵</span></bdi>'),
        ("", '<span class="mark">(empty)</span>'),
        ("\ud800", '<bdi><span class="mark">U+D800</span></bdi>'),
        ("a\u202eb", '<bdi>a<span class="mark">U+202E</span>b</bdi>'),
        ("\x00", '<bdi><span class="mark">U+0000</span></bdi>'),
        ("##ing", "<bdi>##ing</bdi>"),
        ("&amp;", "<bdi>&amp;amp;</bdi>"),
        ("\u0301", "<bdi>◌\u0301</bdi>"),
        ("<b>", "<bdi>&lt;b&gt;</bdi>"),
        ("x" * 300, f'<bdi>{"x" * 40}</bdi><span class="mark">… 300 characters</span>'),
    ],
)
def test_a_token_reads_as_it_is(token: str, shown: str) -> None:
    assert readable(token) == shown


def test_every_code_point_below_the_astral_planes_can_be_written() -> None:
    for code in range(0x10000):
        assert escape(chr(code)).encode("utf-8")
        assert readable(chr(code)).encode("utf-8")


def test_prose_keeps_its_spaces_and_loses_its_markup() -> None:
    assert escape("a <b> & 'c'\n\u202e") == "a &lt;b&gt; &amp; &#x27;c&#x27;\nU+202E"
    assert html.unescape(escape('say "yes"')) == 'say "yes"'
