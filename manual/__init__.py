"""Generate the reference pages of docs/ from the code, and build the documentation site."""
