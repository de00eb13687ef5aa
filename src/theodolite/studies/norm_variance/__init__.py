"""Norm of Mean Contextualized Embeddings Determines their Variance (Yamagiwa and Shimodaira 2024).

`fits` has every line of the paper and those it could not draw, `profile` what is said of each layer, `points` the
units of one layer, `histograms` and `counts` the corpus.
"""
