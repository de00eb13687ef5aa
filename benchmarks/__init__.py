"""Ratios measured in one run: `make bench` prints the table and writes build/bench.json."""
