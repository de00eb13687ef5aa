"""Opening stores: files of vectors, indexes, databases, datasets and arrays, all read in blocks."""

from theodolite.stores.reading.opening import open_store
from theodolite.stores.reading.store_reader import StoreReader

__all__ = ["StoreReader", "open_store"]
