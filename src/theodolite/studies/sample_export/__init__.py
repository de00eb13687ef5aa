"""The sample for other people's viewers: embedding-atlas, and TensorBoard's projector."""

from theodolite.studies.sample_export.export import Exported, export

__all__ = ["Exported", "export"]
