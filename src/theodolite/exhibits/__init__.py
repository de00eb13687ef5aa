"""The figures and tables of the papers, drawn from finished tables; one file per idea."""
