"""The npformer backend that a contender asks for."""

from __future__ import annotations

import npformer as npf
from benchmarks.machine import cores
from npformer.backend import Backend


def backend(device: str, bodies: str) -> Backend:
    """npformer's backend on device in float32, with these bodies."""
    return npf.get_backend(device, dtype="float32", bodies=bodies)


def about(of: Backend) -> dict[str, str]:
    """What a reader wants to know of it."""
    return {"backend": str(of), "threads": f"{of.threads} over a batch, up to {cores()} in a product"}
