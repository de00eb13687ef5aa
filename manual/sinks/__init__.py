"""The sink study of docs/sinks.md: how much of the geometry of layers is made by a few positions."""
