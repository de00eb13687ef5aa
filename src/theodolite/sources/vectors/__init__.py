"""Vectors that one already has, from files: the same numbers, no model."""
