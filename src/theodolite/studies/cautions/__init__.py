"""Cautionary examples, made by the study itself: shapes that are known, and what projections make of them."""
