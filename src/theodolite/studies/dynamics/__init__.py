"""What is told of a series of checkpoints, from its finished tables."""
