"""Benchmarks for your own machines: `python -m theodolite.bench scaling`."""
