"""Exporting the numbers of surveys, series and checks to experiment trackers and monitoring."""
