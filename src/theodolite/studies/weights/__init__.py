"""The weights laboratory: the tables that a model looks its input up in, before any context."""
