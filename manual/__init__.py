"""The manual: pages of docs/ that are generated from the code, and what the site needs to be built."""
