"""Geometry as a test: rules that a survey, a store or a checkpoint must keep relative to a baseline."""
