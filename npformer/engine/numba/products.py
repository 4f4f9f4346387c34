"""Matrix products inside kernels, computed by a BLAS, without Python's lock.

A kernel calls the BLAS function by a name that this file declares, so compiled kernels can be stored on disk. Each
process sets the function's address anew. Sizes are passed as 64-bit integers: a BLAS with 32-bit sizes reads their
lower halves, since registers and the stack hold 64 bits for each.

There are two such names. A product that the threads of NumPy's BLAS may share goes to that BLAS. Any other product goes
to the library that is fastest on one thread, which ``intel`` chooses. If NumPy's BLAS has no such function, a product
of this file takes its place: right, but slow.
"""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from npformer.backend.numpy.blas import blas_product, blas_thread_counter
from npformer.engine.numba.compiling import FASTMATH, inlined
from npformer.engine.numba.intel import intel_product

PRECISIONS = {"s": types.float32, "d": types.float64}
BY_ROWS, BY_COLUMNS, AS_IT_IS, TURNED = (np.int32(code) for code in (101, 102, 111, 112))  # CBLAS's numbers for them


def _signature(number: Any) -> Any:
    """void gemm(order, turn a, turn b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)"""
    choice, size, pointer = types.int32, types.int64, types.CPointer(number)
    return types.void(
        choice, choice, choice, size, size, size, number, pointer, size, pointer, size, number, pointer, size
    )


#: Multiplications from which on a second thread is worth waking.
SHARED_FROM = 1 << 23
NAME, NAME_ALONE, THREADS = "npformer_{}gemm", "npformer_{}gemm_alone", "npformer_blas_threads"
GEMM, GEMM_ALONE = (
    {number: types.ExternalFunction(name.format(letter), _signature(number)) for letter, number in PRECISIONS.items()}
    for name in (NAME, NAME_ALONE)
)
count_threads = types.ExternalFunction(THREADS, types.int32())


def own_product(number: Any) -> Any:
    """A product with the same signature, compiled here."""

    def gemm(order, turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        if order == BY_COLUMNS:  # c read row by row is cᵀ = bᵀ aᵀ
            turn_a, turn_b, m, n, a, lda, b, ldb = turn_b, turn_a, n, m, b, ldb, a, lda
        for i in range(m):
            row = numba.carray(c, m * ldc)[i * ldc : i * ldc + n]
            for j in range(n):
                row[j] = beta * row[j] if beta != 0 else number(0)
            for p in range(k):
                factor = alpha * (a[p * lda + i] if turn_a == TURNED else a[i * lda + p])
                if turn_b == TURNED:
                    for j in range(n):
                        row[j] += factor * b[j * ldb + p]
                else:
                    for j in range(n):
                        row[j] += factor * b[p * ldb + j]

    return numba.cfunc(_signature(number), fastmath=FASTMATH)(gemm)


def provide(letter: str) -> Any:
    """Set the addresses of the products for this precision. Returns objects that must be kept alive."""
    shared = blas_product(letter) or own_product(PRECISIONS[letter])
    alone = intel_product(letter) or shared
    for name, function in ((NAME, shared), (NAME_ALONE, alone)):
        llvm.add_symbol(name.format(letter), _address(function))
    return shared, alone


def provide_thread_count() -> Any:
    """Let kernels ask how many threads NumPy's BLAS may use (0: unknown). Returns an object that must be kept alive."""
    counter = blas_thread_counter() or numba.cfunc(types.int32())(lambda: 0)
    llvm.add_symbol(THREADS, _address(counter))
    return counter


def _address(function: Any) -> int:
    """The address of a function of a library or of Numba."""
    address: int = getattr(function, "address", None) or ctypes.cast(function, ctypes.c_void_p).value or 0
    return address


_kept = [provide_thread_count(), *(provide(letter) for letter in PRECISIONS)]


def product(a, b, beta, c):
    """c (m, n) = a (m, k) b (k, n) + beta·c, each ``for_blas``."""
    raise NotImplementedError("product is called from compiled code only")


@overload(product)
def _choose_product(a, b, beta, c):
    shared, alone = GEMM[a.dtype], GEMM_ALONE[a.dtype]

    def multiply(a, b, beta, c):
        size, (m, k), n = c.itemsize, a.shape, b.shape[1]
        if m * n == 0:
            return
        if k == 0:
            for i in range(m):
                for j in range(n):
                    c[i, j] = beta * c[i, j] if beta != 0 else c.dtype.type(0)
            return
        by_columns = c.strides[1] != size
        line = 1 if by_columns else 0  # the axis from one line to the next
        a_turned, b_turned = (a.strides[1] != size) != by_columns, (b.strides[1] != size) != by_columns
        order = BY_COLUMNS if by_columns else BY_ROWS
        turn_a, turn_b = TURNED if a_turned else AS_IT_IS, TURNED if b_turned else AS_IT_IS
        lda, ldb, ldc = _step(a, line ^ a_turned), _step(b, line ^ b_turned), _step(c, line)
        if m * n * k < SHARED_FROM or count_threads() == 1:
            alone(order, turn_a, turn_b, m, n, k, 1.0, a.ctypes, lda, b.ctypes, ldb, beta, c.ctypes, ldc)
        else:
            shared(order, turn_a, turn_b, m, n, k, 1.0, a.ctypes, lda, b.ctypes, ldb, beta, c.ctypes, ldc)

    return multiply


@inlined
def _step(x, axis):
    """The stride of x along this axis, in numbers; if the axis has one line, the length of that line."""
    return max(x.strides[axis] // x.itemsize, x.shape[1 - axis])


@intrinsic
def borrow(typing_context: Any, x: Any) -> Any:
    """x, an array or a NamedTuple, without reference counting: the caller holds the memory of all arrays.

    So thousands of slices need not count references.
    """

    def borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.BaseTuple):
            parts = (
                borrowed(context, builder, part, builder.extract_value(value, i)) for i, part in enumerate(kind.types)
            )
            return context.make_tuple(builder, kind, list(parts))
        if not isinstance(kind, types.Array):
            return value
        array = context.make_array(kind)(context, builder, value)
        array.meminfo = ir.Constant(array.meminfo.type, None)
        return array._getvalue()

    return x(x), lambda context, builder, signature, arguments: borrowed(context, builder, x, arguments[0])


def for_blas(x: Any) -> Any:
    """x (…, m, n) if each matrix is stored row by row or column by column, else a copy that is."""
    return x if fits_blas(x) else np.array(x, order="C")


def fits_blas(x: Any) -> bool:
    """Whether BLAS can read and write the matrices of x (…, m, n): one axis without gaps, the other without overlap."""
    flags = x.flags
    if not flags.aligned:
        return False
    if flags.c_contiguous:
        return True
    (m, n), (down, right), size = x.shape[-2:], x.strides[-2:], x.itemsize
    if right == size:
        return bool(down >= n * size and down % size == 0)
    return bool(down == size and right >= m * size and right % size == 0)
