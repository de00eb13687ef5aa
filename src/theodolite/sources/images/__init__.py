"""Images: folders of pictures as corpora, decoded to RGB."""

from theodolite.sources.images.corpus import ImageOptions, open_images, scan_images
from theodolite.sources.images.pictures import Picture, read_picture

__all__ = ["ImageOptions", "Picture", "open_images", "read_picture", "scan_images"]
