"""The block laboratory: one Transformer block, run on inputs with a bias of increasing norm."""
