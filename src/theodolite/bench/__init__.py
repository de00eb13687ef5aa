"""Measuring on a user's own machines: `python -m theodolite.bench scaling`."""
