"""Engines run the fold: here, or over many machines."""
