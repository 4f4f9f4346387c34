"""cuBLAS by its C interface, on a handle of our own.

CuPy refuses its own cuBLAS calls while a stream is captured, and sets its handle's workspace anew
before each. A handle of our own, on the stream in use and with a workspace that stays, is captured
and replayed like any kernel.

Two runs are equal to the last bit because cuBLAS promises that for one version, one kind of GPU and
one active stream, and because nothing here asks it for more: no atomics (they are off unless asked
for), a workspace of a fixed size, always the default algorithm. So products are not to be asked for
on two streams at once; the workspace is shared.

What products are made of is said with each call (its compute type); the handle's mode stays the
default. "float32" is CUBLAS_COMPUTE_32F: float32 products and sums, in an order of cuBLAS's choice.
Its PEDANTIC form would forbid some kernels and make nothing more exact that we promise.

cuBLASLt could add a bias within the product: one kernel and one pass over y less for each linear map.
It is not used, since which of its forms exist for which numbers shows only on a GPU; its GELU is
the one with tanh, another function than ours.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_double, c_float, c_int, c_longlong, c_size_t, c_void_p
from typing import Any, NamedTuple
from weakref import finalize

from npformer.errors import DeviceError

#: Bytes of workspace: what cuBLAS itself takes on Hopper.
WORKSPACE = 32 << 20

STATUS = {
    1: "NOT_INITIALIZED", 3: "ALLOC_FAILED", 7: "INVALID_VALUE", 8: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", 15: "NOT_SUPPORTED", 16: "LICENSE_ERROR",
}  # fmt: skip
HINTS = {
    "NOT_INITIALIZED": "the driver may be older than the CUDA libraries; compare nvidia-smi with CuPy's CUDA",
    "ALLOC_FAILED": "the GPU's memory is full; use a smaller batch",
    "ARCH_MISMATCH": "this GPU has no such numbers; use precision='float32'",
}

#: cudaDataType of an array's letter; uint16 holds bfloat16 numbers.
R_32F, R_64F, R_16BF = 0, 1, 14
DATA_TYPE = {"f": R_32F, "d": R_64F, "H": R_16BF}
COMPUTE_32F, COMPUTE_64F, COMPUTE_32F_FAST_TF32 = 68, 70, 77
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
}  # fmt: skip


class Lines(NamedTuple):
    """How a matrix lies in memory: in rows, which are columns to cuBLAS, or turned."""

    turned: bool
    lead: int  # numbers from one line to the next


class Matrix(NamedTuple):
    """A matrix, or the first of several."""

    address: int  # of its first number; of the list of addresses, where each matrix has one
    lines: Lines
    apart: int  # numbers from one matrix to the next


class Sizes(NamedTuple):
    """By columns: an (m, k) matrix times a (k, n) matrix."""

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
    """The cuBLAS that CuPy uses: its own module is linked with it, so its symbols are found through that."""
    from cupy.cuda import cublas

    return ctypes.CDLL(cublas.__file__)


class Blas:
    """A handle, destroyed with its owner. Make one outside of any capture; ``use`` says where its products run."""

    def __init__(self, library: Any) -> None:
        self._library = declared(library)
        self._handle = c_void_p()
        self._call("cublasCreate_v2", byref(self._handle))
        self._end = finalize(self, library.cublasDestroy_v2, self._handle)
        self._end.atexit = False  # the end of the process destroys it, maybe before Python gets here

    def close(self) -> None:
        """Give the handle back now."""
        self._end()

    def use(self, stream: int, workspace: int, size: int) -> None:
        """Run on a stream, with size bytes of workspace: in this order, since a new stream forgets the workspace."""
        self._call("cublasSetStream_v2", self._handle, stream)
        self._call("cublasSetWorkspace_v2", self._handle, workspace, size)

    def gemm(
        self, kind: str, tf32: bool, sizes: Sizes, scale: float, a: Matrix, b: Matrix, add: bool, c: Matrix,
        count: int = 1, *, listed: bool = False,
    ) -> None:  # fmt: skip
        """By columns c = scale·a b (+ c): one product, count at equal distances, or (listed) count at listed addresses.

        kind is the letter of a's and b's dtype; c is float64 if they are, else float32. tf32 (for
        float32 alone) lets numbers be rounded to 10 bits.
        """
        taken, given = DATA_TYPE[kind], R_64F if kind == "d" else R_32F
        compute = COMPUTE_64F if kind == "d" else COMPUTE_32F_FAST_TF32 if tf32 else COMPUTE_32F
        number: Callable[[float], Any] = c_double if kind == "d" else c_float
        strided = count > 1 and not listed

        def operand(matrix: Matrix, data_type: int) -> tuple[int, ...]:
            apart = (matrix.apart,) if strided else ()
            return (matrix.address, data_type, matrix.lines.lead, *apart)

        self._call(
            f"cublasGemm{'Batched' if listed else 'StridedBatched' if strided else ''}Ex",
            self._handle, int(a.lines.turned), int(b.lines.turned), *sizes,
            byref(number(scale)), *operand(a, taken), *operand(b, taken), byref(number(float(add))), *operand(c, given),
            *((count,) if strided or listed else ()), compute, DEFAULT_ALGORITHM,
        )  # fmt: skip

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            said = STATUS.get(status, f"status {status}")
            hint = f"; {HINTS[said]}" if said in HINTS else ""
            raise DeviceError(f"{name}: cuBLAS says {said}{hint}")
