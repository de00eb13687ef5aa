"""Exhibits about what blocks compute: queries and keys by head, sinks of attention, writes to the residual."""
