"""Pure functions from sums to numbers; one file, one idea. `theodolite measures` lists their formulas."""
