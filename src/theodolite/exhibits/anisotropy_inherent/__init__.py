"""The exhibits of "Is Anisotropy Inherent to Transformers?" (Godey et al. 2023)."""
