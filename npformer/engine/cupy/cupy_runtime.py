"""The device runtime of a real GPU: CuPy's memory and streams, kernels compiled by NVRTC, products by cuBLAS."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from functools import cache
from typing import Any

import numpy as np

from npformer.backend.backend import expect_precision
from npformer.engine.cuda.source import files, source
from npformer.engine.cupy.blas import WORKSPACE, Blas, loaded_library
from npformer.engine.cupy.products import Lists, biased_product, product
from npformer.errors import DeviceError
from npformer.io.progress_bar import Bar, say
from npformer.typing import Array

PATIENCE = 0.5  # seconds after which a compilation is announced: what CuPy finds in its cache takes milliseconds
#: How NVRTC compiles the kernels. Division and square roots are rounded as IEEE asks, and there is no --use_fast_math.
#: fmad: a·b + c may be rounded once instead of twice, which is more exact and never the same bits as NumPy's.
#: CuPy adds the architecture, and -ftz=true: float32 numbers below 1.2e-38 become 0.
OPTIONS = ("--std=c++17", "--fmad=true", "--prec-div=true", "--prec-sqrt=true")


class CupyRuntime:
    """``DeviceRuntime`` on the current CUDA device and CuPy's current stream.

    Create it outside of any capture.
    """

    def __init__(self, precision: str = "float32") -> None:
        import cupy

        self.precision = expect_precision(precision)
        self.later: Any = None
        self._cupy = cupy
        self._blas = Blas(loaded_library())
        self._workspace = cupy.empty(WORKSPACE, dtype=cupy.uint8)
        self._stream: int | None = None
        self._modules: dict[str, dict[str, Any]] = {}  # by dtype and file
        self._kernels: dict[tuple[str, str], Any] = {}

    @property
    def blas(self) -> Blas:
        """The cuBLAS handle, on the current stream."""
        stream = self._cupy.cuda.get_current_stream().ptr
        if stream != self._stream:
            self._blas.use(stream, self._workspace.data.ptr, WORKSPACE)
            self._stream = stream
        return self._blas

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return self._cupy.empty(shape, dtype=dtype)

    def contiguous(self, x: Array) -> Array:
        return self._cupy.ascontiguousarray(x)

    def address(self, x: Array) -> int:
        """The address of x's first number in device memory."""
        return int(x.data.ptr)

    def launch(self, kernel: str, dtype: Any, blocks: int, threads: int, *arguments: Any) -> None:
        if blocks == 0:
            return
        name = np.dtype(dtype).name
        function = self._kernels.get((kernel, name))
        if function is None:
            function = self._kernels[kernel, name] = self._compiled(kernel, name)
        function((blocks,), (threads,), tuple(as_argument(x) for x in arguments))

    def lists(self, *arrays: Array) -> Lists:
        return Lists(self, arrays)

    def product(
        self, a: Array, b: Array, out: Array, *, add: bool = False, scale: float = 1.0, lists: Lists | None = None
    ) -> Array:
        return product(self, a, b, out, add, scale, lists)

    def biased_product(self, a: Array, b: Array, bias: Array, out: Array) -> bool:
        return biased_product(self, a, b, bias, out)

    def _compiled(self, kernel: str, dtype: str) -> Any:
        file, _, name = kernel.partition(".")
        if dtype not in self._modules:
            self._modules[dtype] = self._compile_all(dtype)
        return self._modules[dtype][file].get_function(name)

    def _compile_all(self, dtype: str) -> dict[str, Any]:
        """The modules of all files for dtype. Several are compiled at a time, since NVRTC runs without the interpreter.

        Raises DeviceError if one does not compile, after all of them ended; of several, for the first by name.
        """
        longest_first = sorted(files(), key=lambda file: len(source(file, dtype)), reverse=True)
        with ThreadPoolExecutor(initializer=self._cupy.cuda.Device().use) as pool:
            found = {file: pool.submit(self._module, file, dtype) for file in longest_first}
            try:
                if wait(found.values(), PATIENCE).not_done:
                    announce()
                    with Bar("compiling kernels", len(found)) as bar:
                        for _ in as_completed(found.values()):
                            bar.move()
            except BaseException:  # an interrupt
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return {file: found[file].result() for file in files()}

    def _module(self, file: str, dtype: str) -> Any:
        module = self._cupy.RawModule(code=source(file, dtype), options=OPTIONS)
        try:
            module.compile()
        except self._cupy.cuda.compiler.CompileException as error:
            raise DeviceError(
                f"{file}.cu for {dtype}: expected NVRTC to compile it, got: {str(error).strip()}; "
                "is this CuPy made for your CUDA? npformer doctor says what was found"
            ) from None
        return module


def as_argument(x: Any) -> Any:
    """x as CuPy's kernel argument: numbers become 64 bits wide, and None becomes a null pointer.

    Raises DeviceError for a NumPy array: CuPy would pass its value, and the kernel would take that for an address.
    """
    if x is None:
        return np.int64(0)
    if isinstance(x, (bool, int, np.integer, np.bool_)):
        return np.int64(x)
    if isinstance(x, np.ndarray):
        if x.dtype.names:  # by_value's
            return x
        raise DeviceError(
            f"kernel: expected an array in the GPU's memory, got NumPy's of shape {x.shape}; "
            "put it there with backend.array(x)"
        )
    return np.float64(x) if isinstance(x, (float, np.floating)) else x


@cache
def announce() -> None:
    """Say what takes so long, above a progress bar; once."""
    say(
        "npformer: preparing kernels for this GPU; the first run compiles them, which takes a while,"
        " later ones find them in CuPy's cache",
        sys.stderr,
    )
