"""cuBLAS by its C interface, with npformer's own handle.

CuPy refuses its own cuBLAS calls while a stream is captured, and sets its handle's workspace again
before each call. npformer's handle uses the current stream and a fixed workspace, so its calls are captured
and replayed like any kernel.

Two runs are equal to the last bit. cuBLAS promises that for one version, one kind of GPU and
one active stream, as long as there are no atomics (they are off by default), a workspace of a fixed size
and always the default algorithm. So products must not run on two streams at the same time, since they share
the workspace.

Each call gives the precision of its products (its compute type); the handle's mode stays the
default. "float32" is CUBLAS_COMPUTE_32F: float32 products and sums, in an order that cuBLAS chooses.
Its PEDANTIC variant would forbid some kernels without making any promised result more exact.
CUBLAS_COMPUTE_32F_FAST_16BF is no precision of its own: it permits bfloat16 and does not demand it, and operands that
are stored as float32 are as many bytes as in TF32.

A bias is added within its product by cuBLASLt (``blas_lt.py``), which saves one kernel and one pass over y per linear
map.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_double, c_float, c_int, c_longlong, c_size_t, c_void_p
from functools import partial
from typing import Any, NamedTuple
from weakref import finalize

from npformer.engine.cupy import blas_lt
from npformer.errors import DeviceError

#: Bytes of workspace: the default of cuBLAS on Hopper.
WORKSPACE = 32 << 20

STATUS = {
    1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
}  # fmt: skip
HINTS = {
    "NOT_INITIALIZED": "the driver may be older than the CUDA libraries; compare nvidia-smi with CuPy's CUDA",
    "ALLOC_FAILED": "the GPU's memory is full; use a smaller batch",
    "ARCH_MISMATCH": "this GPU does not support this precision; use precision='float32'",
}

#: The cudaDataType of float32 and float64.
R_32F, R_64F = 0, 1
COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77
#: The compute type of float32 products in each of ``backend.PRECISIONS``.
COMPUTE = {"float32": COMPUTE_32F, "tf32": COMPUTE_32F_FAST_TF32}
DEFAULT_ALGORITHM = -1

SCALARS_AND_SHAPE = (c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p)  # handle, two turns, m, n, k, alpha
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasCreate_v2": (c_void_p,),
    "cublasDestroy_v2": (c_void_p,),
    "cublasSetStream_v2": (c_void_p, c_void_p),
    "cublasSetWorkspace_v2": (c_void_p, c_void_p, c_size_t),
    "cublasGemmEx": (
        *SCALARS_AND_SHAPE, c_void_p, c_int, c_int, c_void_p, c_int, c_int,
        c_void_p, c_void_p, c_int, c_int, c_int, c_int,
    ),
    "cublasGemmStridedBatchedEx": (
        *SCALARS_AND_SHAPE, c_void_p, c_int, c_int, c_longlong, c_void_p, c_int, c_int, c_longlong,
        c_void_p, c_void_p, c_int, c_int, c_longlong, c_int, c_int, c_int,
    ),
    "cublasGemmBatchedEx": (
        *SCALARS_AND_SHAPE, c_void_p, c_int, c_int, c_void_p, c_int, c_int,
        c_void_p, c_void_p, c_int, c_int, c_int, c_int, c_int,
    ),
    "cublasGetProperty": (c_int, c_void_p),
    **blas_lt.SIGNATURES,
}  # fmt: skip


def version() -> str:
    """The version of cuBLAS, of which each has bits of its own."""
    library, part, parts = declared(loaded_library()), c_int(), []
    for of in range(3):  # libraryPropertyType: major, minor, patch
        _call(library, "cublasGetProperty", of, byref(part))
        parts.append(str(part.value))
    return ".".join(parts)


class Lines(NamedTuple):
    """The memory layout of a matrix: row-major (column-major to cuBLAS), or transposed."""

    turned: bool
    lead: int  # numbers from one line to the next


class Matrix(NamedTuple):
    """A matrix, or the first of several."""

    address: int  # of its first number; for listed matrices, of the list of their addresses
    lines: Lines
    apart: int  # numbers from one matrix to the next


class Sizes(NamedTuple):
    """Column-major: an (m, k) matrix times a (k, n) matrix."""

    m: int
    n: int
    k: int


def declared(library: Any) -> Any:
    """The library with its functions' parameters declared. Raises DeviceError if it lacks one."""
    for name, parameters in SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise DeviceError(f"cuBLAS has no {name}: expected version 11 or later; update CuPy and CUDA") from None
        function.argtypes, function.restype = parameters, c_int
    return library


def loaded_library() -> Any:
    """The cuBLAS that CuPy uses: CuPy's module is linked with it, so its symbols are found through that module."""
    from cupy.cuda import cublas

    return ctypes.CDLL(cublas.__file__)


class Blas:
    """A handle, destroyed with its owner. Create it outside of any capture; ``use`` sets the stream of its products."""

    def __init__(self, library: Any) -> None:
        self._library = declared(library)
        self._handle = c_void_p()
        self._call("cublasCreate_v2", byref(self._handle))
        # the end of the process destroys it, maybe before Python gets here
        finalize(self, library.cublasDestroy_v2, self._handle).atexit = False
        self._biased = blas_lt.BiasedProducts(library, self._handle, partial(_call, library))
        self._used: tuple[int, int, int] = (0, 0, 0)  # stream, workspace and its size

    def use(self, stream: int, workspace: int, size: int) -> None:
        """Set the stream, then a workspace of size bytes: in this order, since a new stream resets the workspace."""
        self._call("cublasSetStream_v2", self._handle, stream)
        self._call("cublasSetWorkspace_v2", self._handle, workspace, size)
        self._used = stream, workspace, size

    def gemm(
        self, kind: str, precision: str, sizes: Sizes, scale: float, a: Matrix, b: Matrix, add: bool, c: Matrix,
        count: int = 1, *, listed: bool = False,
    ) -> None:  # fmt: skip
        """Column-major c = scale·a b (+ c): one product, count at a fixed stride, or (listed) count by their addresses.

        kind is the letter of their dtype; precision, one of COMPUTE, is that of float32 products.
        """
        data_type, compute = _types(kind, precision)
        number: Callable[[float], Any] = c_double if kind == "d" else c_float
        strided = count > 1 and not listed

        def operand(matrix: Matrix) -> tuple[int, ...]:
            apart = (matrix.apart,) if strided else ()
            return (matrix.address, data_type, matrix.lines.lead, *apart)

        self._call(
            f"cublasGemm{'Batched' if listed else 'StridedBatched' if strided else ''}Ex",
            self._handle, int(a.lines.turned), int(b.lines.turned), *sizes,
            byref(number(scale)), *operand(a), *operand(b), byref(number(float(add))),
            *operand(c), *((count,) if strided or listed else ()), compute, DEFAULT_ALGORITHM,
        )  # fmt: skip

    def gemm_with_bias(
        self, kind: str, precision: str, sizes: Sizes, a: Matrix, b: Matrix, bias: int, c: Matrix
    ) -> bool:
        """Column-major c = a b, with the bias (m,) at an address added to each column. False: cuBLASLt cannot."""
        data_type, compute = _types(kind, precision)

        def operand(matrix: Matrix, rows: int, columns: int) -> blas_lt.Operand:
            turned = matrix.lines.turned
            shape = (columns, rows) if turned else (rows, columns)
            return blas_lt.Operand(matrix.address, data_type, *shape, matrix.lines.lead, turned)

        (m, n, k) = sizes
        first, second, total = operand(a, m, k), operand(b, k, n), operand(c, m, n)
        return self._biased.product(compute, first, second, bias, total, *self._used)

    def _call(self, name: str, *arguments: Any) -> None:
        _call(self._library, name, *arguments)


def _types(kind: str, precision: str) -> tuple[int, int]:
    """The data type of the matrices, and the compute type."""
    return (R_64F, COMPUTE_64F) if kind == "d" else (R_32F, COMPUTE[precision])


def _call(library: Any, name: str, *arguments: Any) -> None:
    status = getattr(library, name)(*arguments)
    if status:
        problem = STATUS.get(status, f"status {status}")
        hint = f"; {HINTS[problem]}" if problem in HINTS else ""
        raise DeviceError(f"{name}: cuBLAS says {problem}{hint}")
