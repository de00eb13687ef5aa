"""Formulas as pure functions on arrays, and the registries of formulas, columns and references."""
