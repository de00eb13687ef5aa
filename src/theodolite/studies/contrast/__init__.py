"""Contrast: directions from pairs of sentences, how two of them lie to each other, and how sure that is."""
