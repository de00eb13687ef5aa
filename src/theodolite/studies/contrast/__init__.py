"""The contrast laboratory: directions of classes of sentence pairs, and the cosines between them with tests."""
