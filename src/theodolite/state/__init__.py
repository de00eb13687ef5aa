"""What a run has summed so far: pilot, sums of every layer, checkpoints, states of workers."""
