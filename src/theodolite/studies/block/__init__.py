"""One Transformer block, fed with embeddings and a bias of growing norm (`theodolite block`)."""
