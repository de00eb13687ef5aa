"""Sources: a model and a corpus become batches of states (text, speech, images, vectors, any module)."""
