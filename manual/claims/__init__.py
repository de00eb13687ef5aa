"""docs/claims.md: the claims of the four papers, each with numbers measured here and a verdict."""
