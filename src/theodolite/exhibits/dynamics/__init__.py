"""The exhibits of "The Shape of Learning: Anisotropy and Intrinsic Dimensions" (Razzhigaev et al. 2024)."""
