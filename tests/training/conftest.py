"""What tests of training share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def is_durable(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], bool]:
    """is_durable(path): whether that file or folder has been through fsync."""
    found, real = set[tuple[int, int]](), os.fsync

    def identity(status: os.stat_result) -> tuple[int, int]:
        return status.st_dev, status.st_ino

    def fsync(descriptor: int) -> None:
        found.add(identity(os.fstat(descriptor)))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return lambda path: identity(path.stat()) in found
