"""Python functions for the commands that draw and write: exhibit, compare, report, reproduce."""
