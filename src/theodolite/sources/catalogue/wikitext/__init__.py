"""Wiki markup to plain text: what a reader of the article would read, without code, media, tables and tags."""

from theodolite.sources.catalogue.wikitext.plain import is_article, plain_text

__all__ = ["is_article", "plain_text"]
