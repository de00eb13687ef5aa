"""Wiki markup to plain text: what is removed and what is kept, also with malformed markup."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theodolite.corpora.catalogue.corpus_unpacking import iterate_article_texts
from theodolite.corpora.catalogue.wikitext import is_article, strip_markup


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        # templates
        ("a{{b|{{c|{{d}}}}|e}}f", "af"),
        ("{{Infobox\n| name = [[X|Y]]\n| x = {{y}}\n}}\nBody.", "Body."),
        ("a {{b never closed\n\nNext {{c}}paragraph.", "a b never closed\n\nNext paragraph."),
        ("a}} b", "a b"),
        ("{{{param|x}}} rest", "rest"),
        ("'''{{Audio|De-berlin.ogg|Berlin}}''' ({{IPA|[bɛɐˈliːn]}}) is", "Berlin ([bɛɐˈliːn]) is"),
        ("'''{{x}}''' is", "is"),
        # tables
        ("a\n{| class=x\n|-\n| b || c\n|}\nd", "a\n\nd"),
        ("a\n{|\n| b\n{|\n| c\n|}\n| d\n|}\ne", "a\n\ne"),
        ("a\n{| border=1\n|-\n| b\n! c !! d\nText after an open table.", "a\n\nText after an open table."),
        (" {|\n | b\n |}\nc", "c"),
        ("a <table><tr><td>b<table><td>c</td></table></td></tr></table>d", "a\nd"),
        ("{| x\n| {{y|}}\n|}\nz", "z"),
        ("the norm |x| of x", "the norm |x| of x"),
        # links
        ("[[a]] [[b|c]] [[d (e)|]] [[:Category:F]] [[g#h|i]]s", "a c d Category:F is"),
        ("[[Image:x.jpg|thumb|the [[Foo|foo]] and [http://y z] of [[Image:w.png]] it]]Text", "Text"),
        ("[[File:x.jpg|thumb|multi\nline [[a]]]]\nText", "Text"),
        ("[[Image:x.jpg|thumb|never [[closed]] caption\nText [[a|b]].", "Text b."),
        ("x [[never closed\ny [[a]]", "x never closed\ny a"),
        ("x [[a|b never closed\ny", "x b never closed\ny"),
        ("x ]] y", "x y"),
        ("a[[de:Aa]][[zh-min-nan:Bb]][[simple:Cc]][[Category:Dd|e]]", "a"),
        ("[[2001: A Space Odyssey]], [[wikt:word|word]], [[Star Trek: TNG]]", None),
        ("[http://a.b/c?d=e the label], [http://x], [mailto:a@b mail me]", "the label,, mail me"),
        ("see http://a.b/c.html. And [[http://d.e f]]", "see. And f"),
        ("[http://a [[b|c]]]", "c"),
        # elements, comments, tags
        ("a<!-- b [[c -->d<!-- never closed {{", "ad"),
        ("a<ref>b</ref>c<ref name=d />e<REF name='f'>g</REF>h", "aceh"),
        ("a<ref>never closed. b", "anever closed. b"),
        ("x <math>\\frac{a}{{b}}</math> y <code>if (a<b) {{</code> z <pre>\n[[q]]\n</pre>w", "x y z w"),
        ("<gallery>\nImage:a.jpg|b\n</gallery>c", "c"),
        ("<nowiki>[[a]] {{b}} '''c''' <d> &amp;</nowiki> e", "[[a]] {{b}} '''c''' <d> & e"),
        ("<nowiki><!-- a --></nowiki>b", "<!-- a -->b"),
        ("H<sub>2</sub>O<br />x <span style='a:b'>y</span> <font color=red>z</FONT>", "H2O\nx y z"),
        ("a < b and c > d; #include <stdio.h>", "a < b and c > d; #include <stdio.h>"),
        # lines
        ("== A ''b'' ==\n=== C ===\ntext", "A b\nC\ntext"),
        ("==A== text", "A text"),
        ("* a\n** b\n# c\n: d\n; e : f\n----\n__NOTOC__", "a\nb\nc\nd\ne : f"),
        ("text\n for (;;) { code }\n\n more code\nback", "text\n\nback"),
        ("'''''both''''' '''bold''' ''it'' the '''dog''''s O'Neill", "both bold it the dog's O'Neill"),
        ("a\n\n\n\n\nb", "a\n\nb"),
        # entities, and what removal leaves
        ("a&nbsp;b &mdash; &#233;&#xe9; &amp;lt; AT&T &nonsense; &lt;i&gt;", "a b — éé &lt; AT&T &nonsense; <i>"),
        ("X ({{IPA2}}, {{y}}) and ( {{z}} , w) [{{q}}].", "X and (w)."),
        ("", ""),
    ],
)
def test_markup(markup: str, text: str | None) -> None:
    if text is None:
        text = "2001: A Space Odyssey, word, Star Trek: TNG"
    assert strip_markup(markup) == text


def test_articles_only() -> None:
    assert is_article("Ant", "text")
    assert is_article("2001: A Space Odyssey", "text")
    assert not is_article("Ant", " #redirect [[Insect]]")
    for title in ("Talk:Ant", "User talk:X", "Wikipedia:About", "Template:Stub", "Category:Ants", "Image:Ant.jpg"):
        assert not is_article(title, "text")


def test_a_dump_gives_the_words_of_its_articles() -> None:
    def page(title: str, text: str) -> list[bytes]:
        body = f"<title>{title}</title>\n<text xml:space='preserve'>{text}</text>"
        return [b"<page>\n", *(line.encode() + b"\n" for line in body.split("\n")), b"</page>\n"]

    dump = [
        *page("A&amp;B", "&lt;b&gt;one&lt;/b&gt; &amp;amp; '''two'''"),
        *page("Old", "#REDIRECT [[A&amp;B]]"),
        *page("Talk:A", "gossip"),
        *page("Picture", "[[Image:x.png]]"),
        *page("C", "three"),
    ]
    assert list(iterate_article_texts(dump)) == ["one & two", "three"]


@given(st.lists(st.sampled_from([*"{}[]|'<>=\n ", "{{", "}}", "[[", "]]", "{|", "|}", "<ref>", "<!--", "a"])))
def test_any_markup_terminates_and_gives_clean_text(marks: list[str]) -> None:
    text = strip_markup("".join(marks))
    assert text == text.strip()
    assert "\n\n\n" not in text
    assert not any("\ue000" <= letter <= "\uf8ff" for letter in text)


@pytest.mark.parametrize("mark", ["{{", "[[", "{|\n", "<ref>", "<nowiki>", "''", "[http://a ", "=", "<!--x-->"])
def test_unclosed_markup_takes_linear_time(mark: str) -> None:
    started = time.process_time()  # of this process only: the machine may be busy
    strip_markup(mark * 5_000)
    # Milliseconds where linear; unclosed elements cost count times length, which for 35 kB is a fraction of this.
    assert time.process_time() - started < 60
