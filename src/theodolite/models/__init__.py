"""Models: load checkpoints, find blocks and norms, read states with hooks, and handle special architectures."""
