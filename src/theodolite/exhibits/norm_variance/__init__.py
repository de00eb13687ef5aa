"""Norm of Mean Contextualized Embeddings Determines their Variance (Yamagiwa and Shimodaira 2024)."""
