"""Surveys: the run, the folder it leaves, taking it up again, and merging."""
