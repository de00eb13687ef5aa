"""Benchmarks: ratios of time and memory. `make bench` prints them and writes build/bench.json."""
