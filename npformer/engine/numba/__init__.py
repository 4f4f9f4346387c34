"""Compiled kernels: what NumPy cannot say in one pass over memory, turned into machine code by Numba.

To import this compiles nothing. ``compiling`` says when kernels are compiled, ``kernel_folder`` where they are kept.
``functional`` stays the truth: the tests hold each pair here against its plain one.
"""

from __future__ import annotations

from npformer.backend.numpy.kernels import KERNELS
from npformer.backend.ops import Ops, with_kernels
from npformer.engine.numba import add_and_compare, decoding  # noqa: F401 - declares kernels
from npformer.engine.numba.adam import adam_update
from npformer.engine.numba.compiling import compile_ahead, compile_all
from npformer.engine.numba.replay import captured_part

__all__ = [
    "OPS", "adam_update", "captured_part", "compile_ahead", "compile_all", "decoding",
]  # fmt: skip

OPS: Ops = with_kernels(KERNELS, __name__)
