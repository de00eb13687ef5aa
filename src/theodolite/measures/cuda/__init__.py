"""Steps of measures on a GPU, each in one pass: Triton kernels, and products on tensor cores."""
