"""What tests of training share."""

import os

import pytest


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
def path(tmp_path):
    """Where a model is saved."""
    return tmp_path / "model"
