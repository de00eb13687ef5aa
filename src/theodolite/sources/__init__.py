"""Models and corpora turned into batches of states."""
