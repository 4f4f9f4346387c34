"""The npformer backend of a contender."""

from importlib import import_module

import npformer as npf
from benchmarks.machine import cores


def backend(device, kernels, precision="float32"):
    """npformer's backend on device in float32, with these kernels and this precision of products."""
    return npf.get_backend(device, dtype="float32", kernels=kernels, precision=precision)


def about(of):
    """The backend's description for the report."""
    threads = "1" if of.name == "cupy" else f"up to {of.threads} over a batch or {cores()} in a product"
    library = import_module("npformer.backend.numba.intel").product_library() if of.kernels == "numba" else ""
    return {"backend": f"{of}, products by {library}" if library else str(of), "threads": threads}
