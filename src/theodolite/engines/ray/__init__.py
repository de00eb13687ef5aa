"""The Ray engine: a driver that distributes shards to workers on many machines, and merges what they save."""
