"""Text through a transformer: tokenize, cut into windows, build batches, read the states of each layer."""
