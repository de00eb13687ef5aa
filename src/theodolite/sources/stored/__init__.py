"""Stored vectors: files of many formats as tables of rows, read in blocks."""
