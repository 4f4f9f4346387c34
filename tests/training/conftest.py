"""What tests of training share."""

import pytest

from npformer.backend.roofline import Roofline
from npformer.training import bench


@pytest.fixture
def ceilings(monkeypatch):
    """Peak rates that are known; measuring them takes a second."""
    roofline = Roofline(flops=1e9, bytes=1e9, shape=(1, 1, 1))
    monkeypatch.setattr(bench, "measure_roofline", lambda backend, shapes: roofline)
    return roofline
