"""A substitute for cuBLAS on the host: the same C functions, column-major as in its manual.

It refuses what cuBLAS refuses, and what cuBLAS leaves undefined: listed matrices that are not aligned.
"""

import ctypes
import re

import numpy as np

#: The declarations of the manual, as they stand there; _v2 is what the macros of cublas_v2.h make of the names.
MANUAL = """
cublasCreate_v2(cublasHandle_t *handle)
cublasDestroy_v2(cublasHandle_t handle)
cublasSetStream_v2(cublasHandle_t handle, cudaStream_t streamId)
cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t workspaceSizeInBytes)
cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
    const void *alpha, const void *A, cudaDataType_t Atype, int lda, const void *B, cudaDataType_t Btype, int ldb,
    const void *beta, void *C, cudaDataType_t Ctype, int ldc, cublasComputeType_t computeType, cublasGemmAlgo_t algo)
cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
    int m, int n, int k, const void *alpha, const void *A, cudaDataType_t Atype, int lda, long long int strideA,
    const void *B, cudaDataType_t Btype, int ldb, long long int strideB, const void *beta, void *C,
    cudaDataType_t Ctype, int ldc, long long int strideC, int batchCount, cublasComputeType_t computeType,
    cublasGemmAlgo_t algo)
cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
    const void *alpha, const void *const Aarray[], cudaDataType_t Atype, int lda, const void *const Barray[],
    cudaDataType_t Btype, int ldb, const void *beta, void *const Carray[], cudaDataType_t Ctype, int ldc,
    int batchCount, cublasComputeType_t computeType, cublasGemmAlgo_t algo)
"""
HANDLE, SUCCESS, NOT_INITIALIZED, INVALID_VALUE, EXECUTION_FAILED, INTERNAL_ERROR, NOT_SUPPORTED = (
    77,
    0,
    1,
    7,
    13,
    14,
    15,
)
#: cudaDataType_t: what its numbers are in memory.
NUMBERS = {0: np.float32, 1: np.float64, 14: np.uint16}
#: (computeType, Atype, Btype, Ctype) of the manual's table, those that matter here.
SUPPORTED = {(68, 0, 0, 0), (68, 14, 14, 0), (77, 0, 0, 0), (70, 1, 1, 1)}


def parameters(declaration):
    """The names and C types of a declaration's parameters."""
    found = {}
    for text in re.sub(r"\s+", " ", declaration[declaration.index("(") + 1 : declaration.rindex(")")]).split(", "):
        name = re.findall(r"\w+", text)[-1]
        is_address = "*" in text or "[" in text or text.startswith(("cublasHandle_t", "cudaStream_t"))
        whole = {"long long int": ctypes.c_longlong, "size_t": ctypes.c_size_t}.get(
            text.rsplit(" ", 1)[0], ctypes.c_int
        )
        found[name] = ctypes.c_void_p if is_address else whole
    return found


DECLARED = {text.split("(")[0]: parameters(text) for text in re.split(r"\n(?=cublas)", MANUAL.strip())}


def by_columns(address, rows, columns, lead, kind):
    """The matrix at an address of the host's memory, its columns ``lead`` numbers apart; not a copy."""
    unit = np.dtype(kind).itemsize
    bytes_of_it = (ctypes.c_char * (((columns - 1) * lead + rows) * unit)).from_address(address)
    return np.ndarray((rows, columns), kind, bytes_of_it, strides=(unit, lead * unit))


def from_bfloat16(bits):
    """float32 numbers of their upper halves."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_tf32(x):
    """float32 numbers rounded to 10 bits behind the point."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


class FakeCublas:
    """See the module's docstring. ``calls`` lists (name, arguments by name) of what was called."""

    def __init__(self):
        self.calls = []
        self.works_at = None  # address of the workspace; a new stream forgets it
        for name, types in DECLARED.items():
            setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int, *types.values())(self._called(name, list(types))))

    def _called(self, name, names):
        def function(*arguments):
            given = dict(zip(names, arguments, strict=True))
            self.calls.append((name, given))
            try:
                return self._answer(name, given)
            except Exception as error:  # C would not see it
                self.calls.append((f"{name} failed: {error!r}", given))
                return INTERNAL_ERROR

        return function

    def _answer(self, name, given):
        if name == "cublasCreate_v2":
            ctypes.c_void_p.from_address(given["handle"]).value = HANDLE
            return SUCCESS
        if given["handle"] != HANDLE:
            return NOT_INITIALIZED
        if name == "cublasSetStream_v2":
            self.works_at = None
        if name == "cublasSetWorkspace_v2":
            self.works_at = given["workspace"]
        return self._gemm(name, given) if "Gemm" in name else SUCCESS

    def _gemm(self, name, given):
        if self.works_at is None or self.works_at % 256:
            return INTERNAL_ERROR
        count = given.get("batchCount", 1)
        m, n, k = given["m"], given["n"], given["k"]
        shapes = {"A": (m, k), "B": (k, n), "C": (m, n)}
        for matrix, turned in (("A", given["transa"]), ("B", given["transb"])):
            shapes[matrix] = shapes[matrix][::-1] if turned else shapes[matrix]
        leads = {matrix: given[f"ld{matrix.lower()}"] for matrix in shapes}
        if min(m, n, k, count) < 0 or any(leads[matrix] < max(1, shapes[matrix][0]) for matrix in shapes):
            return INVALID_VALUE
        kinds = tuple(given[f"{matrix}type"] for matrix in shapes)
        if (given["computeType"], *kinds) not in SUPPORTED or given["algo"] != -1:
            return NOT_SUPPORTED
        starts = {matrix: self._starts(matrix, given, count) for matrix in shapes}
        if len(set(starts["C"])) < count:
            return INVALID_VALUE
        careful = "Aarray" in given and (given["computeType"] == 77 or kinds[0] == 14)
        if careful and any(at % 16 for matrix in shapes for at in starts[matrix]):
            return EXECUTION_FAILED
        for each in zip(*starts.values(), strict=True):
            self._one(given, [by_columns(at, *shapes[x], leads[x], NUMBERS[given[f"{x}type"]])
                              for at, x in zip(each, shapes, strict=True)])  # fmt: skip
        return SUCCESS

    def _starts(self, matrix, given, count):
        """Where each matrix begins."""
        if f"{matrix}array" in given:
            return list((ctypes.c_uint64 * count).from_address(given[f"{matrix}array"]))
        unit = np.dtype(NUMBERS[given[f"{matrix}type"]]).itemsize
        return [given[matrix] + i * given.get(f"stride{matrix}", 0) * unit for i in range(count)]

    def _one(self, given, matrices):
        a, b, c = matrices
        if a.dtype == np.uint16:
            a, b = from_bfloat16(a), from_bfloat16(b)
        if given["computeType"] == 77:
            a, b = to_tf32(a), to_tf32(b)
        a, b = a.T if given["transa"] else a, b.T if given["transb"] else b
        scalar = ctypes.c_double if given["computeType"] == 70 else ctypes.c_float
        alpha, beta = (c.dtype.type(scalar.from_address(given[name]).value) for name in ("alpha", "beta"))
        with np.errstate(all="ignore"):
            found = alpha * np.matmul(a, b)
            c[...] = found + beta * c if beta else found  # where beta is 0, c is not read
