"""Engines run the fold: here, or later over many machines."""
