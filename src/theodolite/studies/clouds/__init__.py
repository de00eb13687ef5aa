"""Clouds: corpora as clouds of vectors, how they lie and spread, and whether more than length tells them apart."""
