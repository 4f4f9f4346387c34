"""A substitute for cuBLAS on the host: the same C functions, column-major as in its manual.

It refuses what cuBLAS refuses, and what cuBLAS leaves undefined: listed matrices that are not aligned.
"""

import ctypes
import re

import numpy as np

#: The declarations of the manual, as they stand there; _v2 is what the macros of cublas_v2.h make of the names.
MANUAL = """
cublasGetProperty(libraryPropertyType type, int *value)
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
cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc, cublasComputeType_t computeType, cudaDataType_t scaleType)
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc, cublasLtMatmulDescAttributes_t attr, const void *buf,
    size_t sizeInBytes)
cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc)
cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, cudaDataType type, uint64_t rows, uint64_t cols,
    int64_t ld)
cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout)
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t attr,
    const void *buf, size_t sizeInBytes)
cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
    cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc,
    cublasLtMatrixLayout_t Ddesc, cublasLtMatmulPreference_t preference, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t heuristicResultsArray[], int *returnAlgoCount)
cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc, const void *alpha, const void *A,
    cublasLtMatrixLayout_t Adesc, const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta, const void *C,
    cublasLtMatrixLayout_t Cdesc, void *D, cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo,
    void *workspace, size_t workspaceSizeInBytes, cudaStream_t stream)
"""
#: Types that are addresses, though no * shows it.
HANDLES = re.compile(r"\b(cublas(Lt)?(Handle|MatmulDesc|MatrixLayout|MatmulPreference)|cudaStream)_t\b")
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
NUMBERS = {0: np.float32, 1: np.float64}
#: Bits behind the point to which a compute type rounds operands.
BITS = {77: 10}
#: (computeType, Atype, Btype, Ctype) of the manual's table, those that matter here.
SUPPORTED = {(68, 0, 0, 0), (77, 0, 0, 0), (70, 1, 1, 1)}


def parameters(declaration):
    """The names and C types of a declaration's parameters."""
    found = {}
    for text in re.sub(r"\s+", " ", declaration[declaration.index("(") + 1 : declaration.rindex(")")]).split(", "):
        name = re.findall(r"\w+", text)[-1]
        is_address = "*" in text or "[" in text or HANDLES.search(text)
        whole = {"long long int": ctypes.c_longlong, "size_t": ctypes.c_size_t, "uint64_t": ctypes.c_uint64,
                 "int64_t": ctypes.c_longlong}.get(text.rsplit(" ", 1)[0], ctypes.c_int)  # fmt: skip
        found[name] = ctypes.c_void_p if is_address else whole
    return found


DECLARED = {text.split("(")[0]: parameters(text) for text in re.split(r"\n(?=cublas)", MANUAL.strip())}


def by_columns(address, rows, columns, lead, kind):
    """The matrix at an address of the host's memory, its columns ``lead`` numbers apart; not a copy."""
    unit = np.dtype(kind).itemsize
    bytes_of_it = (ctypes.c_char * (((columns - 1) * lead + rows) * unit)).from_address(address)
    return np.ndarray((rows, columns), kind, bytes_of_it, strides=(unit, lead * unit))


def rounded(x, behind):
    """float32 numbers rounded to so many bits behind the point, ties to even."""
    bits, off = np.ascontiguousarray(x).view(np.uint32), 23 - behind
    half = np.uint32((1 << (off - 1)) - 1)
    return ((bits + half + ((bits >> off) & 1)) & np.uint32(2**32 - (1 << off))).view(np.float32)


class FakeCublas:
    """See the module's docstring. ``calls`` lists (name, arguments by name) of what was called."""

    def __init__(self):
        self.calls = []
        self.works_at = None  # address of the workspace; a new stream forgets it
        self.light = FakeCublasLt()
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
        if name.startswith("cublasLt"):
            return self.light.answer(name, given)
        if name == "cublasGetProperty":
            ctypes.c_int.from_address(given["value"]).value = 13 + given["type"]
            return SUCCESS
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
        careful = "Aarray" in given and given["computeType"] in BITS
        if careful and any(at % 16 for matrix in shapes for at in starts[matrix]):
            return EXECUTION_FAILED
        for each in zip(*starts.values(), strict=True):
            multiply(given, [by_columns(at, *shapes[x], leads[x], NUMBERS[given[f"{x}type"]])
                             for at, x in zip(each, shapes, strict=True)])  # fmt: skip
        return SUCCESS

    def _starts(self, matrix, given, count):
        """Where each matrix begins."""
        if f"{matrix}array" in given:
            return list((ctypes.c_uint64 * count).from_address(given[f"{matrix}array"]))
        unit = np.dtype(NUMBERS[given[f"{matrix}type"]]).itemsize
        return [given[matrix] + i * given.get(f"stride{matrix}", 0) * unit for i in range(count)]


class FakeCublasLt:
    """cublasLt's part: objects by number, each with its attributes, and products with a bias.

    ``lacks(data type)`` says for which numbers it has no kernel; ``refuses``: for none, but it notices that only when
    it is to run it. ``alive`` counts what was made and not destroyed.
    """

    def __init__(self):
        self.refuses = False
        self.objects, self.alive = {}, 0
        self.lacks = lambda data_type: False

    def answer(self, name, given):
        kind = re.match(r"cublasLt(MatmulDesc|MatrixLayout|MatmulPreference)(Create|SetAttribute|Destroy)", name)
        if kind is None:
            return self._choose(given) if "Heuristic" in name else self._matmul(given)
        if kind[2] == "Create":
            place, *values = given.values()
            self.objects[number := len(self.objects) + 1] = dict(zip(list(given)[1:], values, strict=True))
            ctypes.c_void_p.from_address(place).value = number
        elif kind[2] == "SetAttribute":
            owner, attribute, at, size = given.values()
            self.objects[owner][attribute] = int.from_bytes((ctypes.c_char * size).from_address(at).raw, "little")
        self.alive += {"Create": 1, "Destroy": -1}.get(kind[2], 0)
        return SUCCESS

    def _choose(self, given):
        wishes, kind = self.objects[given["preference"]], self.objects[given["Adesc"]]["type"]
        if given["lightHandle"] != HANDLE or not wishes[1]:
            return NOT_INITIALIZED
        if self.lacks(kind):
            return NOT_SUPPORTED
        chosen = (ctypes.c_uint64 * 8).from_address(given["heuristicResultsArray"])
        chosen[:] = [*(wishes[i] for i in range(5, 9)), self._hash(given), 0, 0, 0]  # what it may rely on
        ctypes.c_int.from_address(given["returnAlgoCount"]).value = 1
        return SUCCESS

    def _hash(self, given):
        """A number of all that a kernel is chosen for."""
        layouts = [tuple(self.objects[given[f"{x}desc"]].values()) for x in "ABCD"]
        desc = self.objects[given.get("operationDesc", given.get("computeDesc"))]
        return hash((*layouts, *(desc[i] for i in ("computeType", "scaleType", 3, 4, 7)))) % 2**64

    def _matmul(self, given):
        if self.refuses:
            return NOT_SUPPORTED
        desc = self.objects[given["computeDesc"]]
        *aligned, of, _, _, _ = (ctypes.c_uint64 * 8).from_address(given["algo"])
        if of != self._hash(given) or desc[7] != 4 or given["workspace"] % 256 or given["C"] != given["D"]:
            return INVALID_VALUE
        if any(given[x] % most for x, most in zip("ABCD", aligned, strict=True)) or desc[8] % 16:
            return EXECUTION_FAILED
        layouts = [self.objects[given[f"{x}desc"]] for x in "ABD"]
        kinds = tuple(x["type"] for x in layouts)
        if (desc["computeType"], *kinds) not in SUPPORTED or desc["scaleType"] != kinds[2]:
            return NOT_SUPPORTED
        a, b, d = (by_columns(given[x], lay["rows"], lay["cols"], lay["ld"], NUMBERS[lay["type"]])
                   for x, lay in zip("ABD", layouts, strict=True))  # fmt: skip
        multiply({"transa": desc[3], "transb": desc[4], "computeType": desc["computeType"], **given}, [a, b, d])
        d += by_columns(desc[8], len(d), 1, len(d), d.dtype)
        return SUCCESS


def multiply(given, matrices):
    """c = alpha·a b + beta·c, of arrays."""
    a, b, c = matrices
    if given["computeType"] in BITS:
        a, b = (rounded(x, BITS[given["computeType"]]) for x in (a, b))
    a, b = a.T if given["transa"] else a, b.T if given["transb"] else b
    scalar = ctypes.c_double if given["computeType"] == 70 else ctypes.c_float
    alpha, beta = (c.dtype.type(scalar.from_address(given[name]).value) for name in ("alpha", "beta"))
    with np.errstate(all="ignore"):
        found = alpha * np.matmul(a, b)
        c[...] = found + beta * c if beta else found  # where beta is 0, c is not read
