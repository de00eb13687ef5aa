"""Small mergeable accumulators: one file, one statistic. See docs/adding-a-statistic.md."""
