"""Models of pictures and sound: where their states are taken, and what they are fed."""
