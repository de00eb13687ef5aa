"""Engines run the fold over the shards of a plan: in this process, on a GPU, or on a Ray cluster."""
