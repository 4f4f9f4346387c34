"""Fixtures that tests of the runtime share with tests of models: a small Transformer, and a padded batch."""

from tests.models.conftest import batch, small_model

__all__ = ["batch", "small_model"]
