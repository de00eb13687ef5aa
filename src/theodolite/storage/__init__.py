"""Where bytes are stored: local folders and buckets, locks, atomic writes, tensor files with checksums."""
