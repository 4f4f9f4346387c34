"""A card without a GPU: arrays are NumPy's, and kernels the same sources, compiled as C++, one thread in each block."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from npformer.backend.cuda.source import kernels, source

SHIM = Path(__file__).with_name("shim.h")
Host = np.ndarray[Any, Any]


def compiler_problem() -> str | None:
    """Why kernels cannot be compiled as C++ here, or None."""
    return None if shutil.which("g++") else "no C++ compiler: g++ was not found"


@cache
def library(file: str, dtype: str) -> ctypes.CDLL:
    """The kernels of FILE.cu for dtype, each as launch_NAME(blocks, arguments) and arguments_of_NAME()."""
    calls = "\n".join(
        f'extern "C" void launch_{name}(unsigned blocks, void **arguments) {{ each_block({name}, blocks, arguments); }}\n'
        f'extern "C" int arguments_of_{name}() {{ return number_of({name}); }}'
        for name in kernels(file)
    )
    folder = Path(tempfile.mkdtemp(prefix="npformer-kernels-"))
    text, built = folder / f"{file}.cpp", folder / f"{file}.so"
    text.write_text(f'#include "{SHIM}"\n{source(file, dtype)}\n{calls}\n')
    # no contraction: products and sums are rounded as they are written
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-Wall", "-Wno-unused-function", "-Werror"]
    done = subprocess.run(["g++", *flags, "-o", str(built), str(text)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(built))


def as_argument(x: Any) -> Any:
    """What a kernel is given for x, as the real card gives it."""
    if x is None:
        return ctypes.c_void_p()
    if isinstance(x, np.ndarray):
        assert x.flags.aligned
        return ctypes.c_void_p(x.ctypes.data)
    if isinstance(x, (bool, int, np.integer)):
        return ctypes.c_longlong(int(x))
    assert isinstance(x, float), f"an argument that no kernel takes: {type(x)}"
    return ctypes.c_double(x)


class HostCard:
    """See the module's docstring. ``launched`` counts kernels by name."""

    def __init__(self, precision: str = "float32") -> None:
        self.precision = precision
        self.launched: list[str] = []

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Host:
        fresh = np.empty(shape, dtype)
        if fresh.dtype.kind == "f":
            fresh.fill(np.nan)  # whoever reads before writing is found out
        return fresh

    def contiguous(self, x: Host) -> Host:
        return np.ascontiguousarray(x)

    def launch(self, kernel: str, dtype: Any, blocks: int, threads: int, *arguments: Any) -> None:
        file, _, name = kernel.partition(".")
        assert blocks >= 0 and 1 <= threads <= 1024, kernel
        if blocks == 0:
            return
        built = library(file, np.dtype(dtype).name)
        wanted = getattr(built, f"arguments_of_{name}")()
        assert len(arguments) == wanted, f"{kernel}: {wanted} arguments, got {len(arguments)}"
        made = [as_argument(x) for x in arguments]
        pointers = (ctypes.c_void_p * len(made))(*(ctypes.addressof(x) for x in made))
        getattr(built, f"launch_{name}")(ctypes.c_uint(blocks), pointers)
        self.launched.append(kernel)

    def product(self, a: Host, b: Host, out: Host, *, add: bool = False, scale: float = 1.0) -> Host:
        found = np.matmul(a, b) * out.dtype.type(scale)
        out[...] = out + found if add else found
        return out
