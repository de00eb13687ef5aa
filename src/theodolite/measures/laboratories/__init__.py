"""Formulas of the laboratories: attention, contrast, clouds, groups, paths, probes and position tables."""
