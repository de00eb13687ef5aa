"""The exhibits of "A study on the embedding spaces of the BERT language model" (Luisto 2024)."""
