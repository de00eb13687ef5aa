"""Drawing functions that the exhibits of all papers share: axes, lines, points, bars, tables, captions, style."""
