"""What tests of training share."""

import os

import pytest


@pytest.fixture
def is_durable(monkeypatch):
    """is_durable(path): whether that file or folder has been through fsync."""
    found, real = set[tuple[int, int]](), os.fsync

    def identity(status: os.stat_result) -> tuple[int, int]:
        return status.st_dev, status.st_ino

    def fsync(descriptor: int):
        found.add(identity(os.fstat(descriptor)))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return lambda path: identity(path.stat()) in found
