"""Formulas of the laboratories: attention, contrast, clouds, bridge, groups, paths, probes and position tables."""
