"""Vector stores: read them in blocks, check their health, and estimate what a change would cost."""
