"""What the tables of a series are called."""

SERIES, ATTENTION, ROWS = "series", "attention", "attention_rows"
