"""Statistics: mergeable accumulators over the vectors of a layer, one per file. See docs/extending.md."""
