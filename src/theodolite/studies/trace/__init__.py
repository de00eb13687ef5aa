"""Trace: the paths of single sentences through the layers, and where two sentences part."""
