"""Products with a bias in one kernel, by cuBLASLt, with the handle, stream and workspace of npformer's cuBLAS.

    c = a b + bias        column-major (m, n); bias (m,) is added to each column

cuBLASLt is asked once for each kind of product which of its kernels it would take; its first answer is kept, so that
two runs take the same. Where it has none (which dtypes and layouts have one differs from version to version), or
refuses what it answered, the caller adds the bias by a kernel of its own. cuBLASLt's own activation is not used: its
GELU is the tanh approximation, which is another function.

A handle of cuBLAS is one of cuBLASLt, as its manual says under cublasLtCreate.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ctypes import byref, c_double, c_float, c_int, c_longlong, c_size_t, c_uint64, c_void_p
from typing import Any, NamedTuple

SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasLtMatmulDescCreate": (c_void_p, c_int, c_int),
    "cublasLtMatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulDescDestroy": (c_void_p,),
    "cublasLtMatrixLayoutCreate": (c_void_p, c_int, c_uint64, c_uint64, c_longlong),
    "cublasLtMatrixLayoutDestroy": (c_void_p,),
    "cublasLtMatmulPreferenceCreate": (c_void_p,),
    "cublasLtMatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulPreferenceDestroy": (c_void_p,),
    "cublasLtMatmulAlgoGetHeuristic": (*(c_void_p,) * 7, c_int, c_void_p, c_void_p),
    "cublasLtMatmul": (
        c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,
        c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p,
    ),
}  # fmt: skip

#: Attributes of descriptors and preferences, by their names in cublasLt.h, and a value of one.
MATMUL_DESC_TRANSA, MATMUL_DESC_TRANSB, MATMUL_DESC_EPILOGUE, MATMUL_DESC_BIAS_POINTER = 3, 4, 7, 8
MATMUL_PREF_MAX_WORKSPACE_BYTES, MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 1, 5  # then those of B, C and D
EPILOGUE_BIAS = 4

#: A bias that begins elsewhere than at a multiple of so many bytes is left to the caller.
BIAS_ALIGNED = 16
#: The largest alignment that is told of an operand.
MOST_ALIGNED = 256


class Answer(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float),
        ("reserved", c_int * 4),
    )  # fmt: skip


class Operand(NamedTuple):
    """A matrix as it lies in memory, column-major; turned: its transpose is the operand."""

    address: int
    data_type: int
    rows: int
    columns: int
    lead: int
    turned: bool = False


class BiasedProducts:
    """See the module's docstring. call(name, *arguments) calls a function of the library, and raises on an error."""

    def __init__(self, library: Any, handle: Any, call: Callable[..., None]) -> None:
        self._library, self._handle, self._call = library, handle, call
        self._answers: dict[Any, Answer | None] = {}

    def product(
        self, compute: int, a: Operand, b: Operand, bias: int, c: Operand, stream: int, workspace: int, size: int
    ) -> bool:
        """Whether c = a b + bias (m,) is being computed; if not, nothing has been done. bias is an address."""
        if min(c.rows, c.columns) <= 1 or bias % BIAS_ALIGNED:
            return False
        with self._described(compute, a, b, bias, c) as (description, layouts):
            aligned = [_alignment(x.address) for x in (a, b, c, c)]
            key = (compute, *(x._replace(address=0) for x in (a, b, c)), *aligned, size)
            if key not in self._answers:
                self._answers[key] = self._answer(description, layouts, aligned, size)
            answer = self._answers[key]
            if answer is None:
                return False
            number = c_double if c.data_type == 1 else c_float
            of_a, of_b, of_c = layouts
            status = self._library.cublasLtMatmul(
                self._handle, description, byref(number(1)), a.address, of_a, b.address, of_b,
                byref(number(0)), c.address, of_c, c.address, of_c, byref(answer), workspace, size, stream,
            )  # fmt: skip
            if status:
                self._answers[key] = None
            return not status

    @contextmanager
    def _described(
        self, compute: int, a: Operand, b: Operand, bias: int, c: Operand
    ) -> Iterator[tuple[c_void_p, list[c_void_p]]]:
        """cuBLASLt's description of the product, and of the three matrices."""
        with ExitStack() as made:
            description = self._made(made, "MatmulDesc", compute, c.data_type)
            for attribute, value in (
                (MATMUL_DESC_TRANSA, c_int(a.turned)), (MATMUL_DESC_TRANSB, c_int(b.turned)),
                (MATMUL_DESC_EPILOGUE, c_int(EPILOGUE_BIAS)), (MATMUL_DESC_BIAS_POINTER, c_void_p(bias)),
            ):  # fmt: skip
                self._set("MatmulDesc", description, attribute, value)
            layouts = [self._made(made, "MatrixLayout", x.data_type, x.rows, x.columns, x.lead) for x in (a, b, c)]
            yield description, layouts

    def _answer(self, description: c_void_p, layouts: list[c_void_p], aligned: list[int], size: int) -> Answer | None:
        """The kernel that cuBLASLt would take, or None if it has none."""
        answer, count = Answer(), c_int()
        with ExitStack() as made:
            wishes = self._made(made, "MatmulPreference")
            self._set("MatmulPreference", wishes, MATMUL_PREF_MAX_WORKSPACE_BYTES, c_uint64(size))
            for i, alignment in enumerate(aligned):
                self._set("MatmulPreference", wishes, MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, ctypes.c_uint32(alignment))
            of_a, of_b, of_c = layouts
            status = self._library.cublasLtMatmulAlgoGetHeuristic(
                self._handle, description, of_a, of_b, of_c, of_c, wishes, 1, byref(answer), byref(count)
            )
        return None if status or not count.value or answer.state else answer

    def _made(self, made: ExitStack, kind: str, *arguments: int) -> c_void_p:
        """An object of cuBLASLt, which is destroyed at the end of made."""
        found = c_void_p()
        self._call(f"cublasLt{kind}Create", byref(found), *arguments)
        made.callback(self._call, f"cublasLt{kind}Destroy", found)
        return found

    def _set(self, kind: str, owner: c_void_p, attribute: int, value: Any) -> None:
        self._call(f"cublasLt{kind}SetAttribute", owner, attribute, byref(value), ctypes.sizeof(value))


def _alignment(address: int) -> int:
    """The largest power of 2 that divides the address, at most MOST_ALIGNED."""
    return min(MOST_ALIGNED, address & -address)
