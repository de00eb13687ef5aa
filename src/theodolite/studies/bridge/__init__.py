"""The bridge laboratory: two models, or all layers of one, over the same positions of a corpus."""
