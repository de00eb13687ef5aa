"""Corpora of text, audio and images: finding files, reading, filtering, scanning and cutting into shards."""
