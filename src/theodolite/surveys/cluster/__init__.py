"""A survey by many workers: what each does, who gives them shards, and how their sums become one state."""
