"""How cuBLAS is called: its declarations and its errors."""

import numpy as np
import pytest

from npformer.engine.cupy.blas import SIGNATURES, STATUS, Blas, Lines, Matrix, Sizes, declared
from npformer.errors import DeviceError


@pytest.fixture
def fake(runtimes):
    return runtimes.fake_cublas


def test_declarations_are_the_manuals(fake):
    assert {name: tuple(types.values()) for name, types in fake.DECLARED.items()} == SIGNATURES


def test_a_library_that_is_too_old():
    with pytest.raises(DeviceError, match="cuBLAS has no cublasCreate_v2: expected version 11 or later"):
        declared(object())


def gemm(blas, kind="d", lead=4, sizes=Sizes(4, 4, 4)):  # noqa: B008
    """A product of three 4 × 4 matrices in the host's memory."""
    arrays = [np.ones((4, 4)) for _ in range(3)]
    a, b, c = (Matrix(x.ctypes.data, Lines(False, lead), 0) for x in arrays)
    blas.gemm(kind, "float32", sizes, 1.0, a, b, False, c)


@pytest.fixture
def blas(fake):
    made = Blas(fake.FakeCublas())
    made.use(1, 256, 32)
    return made


def test_an_error_of_cublas_is_raised_with_its_name(blas):
    gemm(blas)
    with pytest.raises(DeviceError, match="cublasGemmEx: cuBLAS says INVALID_VALUE"):
        gemm(blas, lead=3)
    with pytest.raises(DeviceError, match="cublasGemmEx: cuBLAS says INVALID_VALUE"):
        gemm(blas, sizes=Sizes(-1, 4, 4))


@pytest.mark.parametrize(("status", "said"), [*STATUS.items(), (99, "status 99")])
def test_every_status(fake, blas, status, said):
    blas._library._answer = lambda name, given: status
    with pytest.raises(DeviceError, match=f"cublasGemmEx: cuBLAS says {said}(;|$)"):
        gemm(blas)
