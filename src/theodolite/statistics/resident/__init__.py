"""Statistics that stay where the states are: the sums of a layer kept on a GPU, read off as on the processor."""
