"""The clouds laboratory: corpora as clouds of document vectors, and tests of whether the clouds are separate."""
