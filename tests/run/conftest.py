"""What tests of a run's files share."""

import pytest


@pytest.fixture
def path(tmp_path):
    """Where a model is saved."""
    return tmp_path / "model"
