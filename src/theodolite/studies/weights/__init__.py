"""The weights laboratory: the word, position and segment tables of a model, compared without any context."""
