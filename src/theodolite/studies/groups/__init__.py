"""Groups: whether sentences that say the same lie together, and how far from nonsense."""
