"""Is Anisotropy Inherent to Transformers? (Godey et al. 2023), and the profiles of Razzhigaev et al. 2024.

`kinds` tells what a survey is of, `depth` where its layers stand, `by_layer` what is said of each, `drift` whether
the mean cosine follows the norm of the mean, `published` the figures of Ethayarajh 2019.
"""
