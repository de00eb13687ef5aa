"""Reproduction: a whole paper repeated on models and text of one's own, from surveys to an index page."""
