"""The statistics of a layer accumulated on a GPU: a reference version in PyTorch, and Triton kernels."""
