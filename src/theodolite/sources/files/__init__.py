"""What corpora of sound and of images share: where files are found, which are kept, in which shards they travel.

A document is a reference (a path and a label) until a source decodes it; scanning decodes each file once, so that
what cannot be used is known by name before a survey begins.
"""

from theodolite.sources.files.bad import BadFileError
from theodolite.sources.files.corpus import Look, MediaCorpus
from theodolite.sources.files.finding import Kind, MediaFile, find_media
from theodolite.sources.files.options import MediaOptions
from theodolite.sources.files.scanning import MediaScan, scan_media, shard_pieces

__all__ = [
    "BadFileError",
    "Kind",
    "Look",
    "MediaCorpus",
    "MediaFile",
    "MediaOptions",
    "MediaScan",
    "find_media",
    "scan_media",
    "shard_pieces",
]
