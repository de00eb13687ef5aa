"""Is Anisotropy Inherent to Transformers? (Godey et al. 2023), and the profiles of Razzhigaev et al. 2024.

`layers` arranges columns of a survey by layer and depth, `drift` tests whether the mean cosine follows the norm of
the mean, `batches` measures batches of a surveyed corpus, `published` holds the figures of Ethayarajh 2019.
"""
