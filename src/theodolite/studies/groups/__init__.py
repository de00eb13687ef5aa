"""The groups laboratory: whether sentences with the same meaning have similar vectors, compared with nonsense."""
