"""A device runtime without a GPU: arrays are NumPy's, and the kernels are the same sources compiled as C++.

It is stricter than a GPU: fresh memory is NaN, what is written outside an array is found, and so is what
CUDA leaves undefined between the threads of a block (fibers.h).
"""

import ctypes

import numpy as np

from npformer.backend.cupy.blas import Blas
from npformer.backend.cupy.device_runtime import as_argument
from npformer.backend.cupy.products import product
from tests.backend.cuda import fake_cublas, guarded, host_kernels

compiler_problem = host_kernels.compiler_problem


def in_c(x):
    """What a kernel is given for a number, as the real GPU gives it; None is a null pointer."""
    number = as_argument(x)
    kind = {np.int64: ctypes.c_longlong, np.float64: ctypes.c_double}.get(type(number))
    assert kind is not None, f"an argument that no kernel takes: {type(x)}"
    return kind(number)


class HostRuntime:
    """See the module's docstring. ``launched`` counts kernels by name.

    ``block`` is how many threads a block has, whatever was asked for (None: as many as were), and
    ``backwards`` in which order blocks and threads run.
    """

    def __init__(self, precision="float32", block=1, backwards=False):
        self.precision = precision
        self.block, self.backwards = block, backwards
        self.launched = []
        self.cublas = fake_cublas.FakeCublas()
        self.blas = Blas(self.cublas)
        self.workspace = self.empty((256,), np.uint8)
        self.blas.use(1, self.address(self.workspace), self.workspace.nbytes)

    def empty(self, shape, dtype):
        return guarded.guarded(shape, dtype)  # whoever reads before writing is found out: it is NaN

    def contiguous(self, x):
        return np.ascontiguousarray(x)

    def launch(self, kernel, dtype, blocks, threads, *arguments):
        file, _, name = kernel.partition(".")
        assert 0 <= blocks < 2**31, f"{kernel}: {blocks} blocks"
        assert 1 <= threads <= 1024, f"{kernel}: {threads} threads in a block"
        if blocks == 0:
            return
        built = host_kernels.library(file, np.dtype(dtype).name)
        wanted = getattr(built, f"arguments_of_{name}")()
        assert len(arguments) == wanted, f"{kernel}: {wanted} arguments, got {len(arguments)}"
        arrays = [x for x in arguments if isinstance(x, np.ndarray)]
        with guarded.in_guarded_memory(arrays, kernel) as addresses:
            places = iter(addresses)
            made = [ctypes.c_void_p(next(places)) if isinstance(x, np.ndarray) else in_c(x) for x in arguments]
            pointers = (ctypes.c_void_p * len(made))(*(ctypes.addressof(x) for x in made))
            problem = getattr(built, f"launch_{name}")(blocks, self.block or threads, int(self.backwards), pointers)
            assert problem is None, f"{kernel}: {problem.decode()}"
        self.launched.append(kernel)

    def product(self, a, b, out, *, add=False, scale=1.0):
        return product(self, a, b, out, add, scale)

    def address(self, x):
        """Where x's first number is."""
        return int(x.ctypes.data)
