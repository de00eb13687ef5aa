"""Tracing: the paths of the tokens of single sentences through the layers, and where two sentences diverge."""
