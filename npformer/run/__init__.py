"""A run's life and its files: begun, trained, resumed and summed up; folder, options, checkpoints; models in files.

``begin`` and ``trainer`` are its life. ``processes`` is about the ranks of a run: it starts them, is one of them, and
ends all when one is lost.
"""

from npformer.run.directory import RunDirectory
from npformer.run.model_file import load, save

__all__ = [
    "RunDirectory",
    "load",
    "save",
]
