"""Text through a transformer: tokenize, cut into windows, bucket by length, take each layer's states by hooks."""
