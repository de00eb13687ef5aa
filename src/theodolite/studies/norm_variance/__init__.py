"""Norm of Mean Contextualized Embeddings Determines their Variance (Yamagiwa and Shimodaira 2024).

`units` has the units of one layer, `fits` the regression lines, `profile` the numbers of each layer, `consistency`
the comparison with cosines, `layer_norm` appendices H and I, `token_sets` the sets of selected tokens.
"""
