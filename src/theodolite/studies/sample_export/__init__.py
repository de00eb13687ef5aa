"""Exporting the sample of a survey to other viewers: embedding-atlas and the TensorBoard projector."""
