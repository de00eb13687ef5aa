"""Ray: workers on many machines, asked one thing at a time. Nothing outside this folder imports it."""
