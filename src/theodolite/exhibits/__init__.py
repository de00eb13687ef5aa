"""Figures and tables of the papers, drawn from finished tables. One folder per paper; drawing/ is shared."""
