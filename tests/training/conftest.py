"""What tests of training share."""

import os

import pytest

from npformer.backend import get_backend
from npformer.backend.roofline import Roofline
from npformer.training import bench


@pytest.fixture
def is_durable(monkeypatch):
    """is_durable(path): whether that file or folder has been through fsync."""
    found, real = set(), os.fsync

    def identity(status):
        return status.st_dev, status.st_ino

    def fsync(descriptor):
        found.add(identity(os.fstat(descriptor)))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return lambda path: identity(path.stat()) in found


@pytest.fixture
def alone():
    """The plain kernels in float32 on one thread."""
    return get_backend("numpy", kernels="plain", threads=1)


@pytest.fixture
def ceilings(monkeypatch):
    """Peak rates that are known; measuring them takes a second."""
    found = Roofline(flops=1e9, bytes=1e9, shape=(1, 1, 1))
    monkeypatch.setattr(bench, "measure_roofline", lambda backend, shapes: found)
    return found


@pytest.fixture
def path(tmp_path):
    """Where a model is saved."""
    return tmp_path / "model"
