"""A device runtime without a GPU: arrays are NumPy's, and the kernels are the same sources compiled as C++.

It is stricter than a GPU: fresh memory is NaN, what is written outside an array is found, and so is what
CUDA leaves undefined between the threads of a block (fibers.h). Kernels are compiled once for each source text; the
libraries are kept in pytest's cache folder.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from npformer.backend.cuda.source import REAL, files, kernels, source
from npformer.backend.cupy.blas import Blas
from npformer.backend.cupy.device_runtime import as_argument
from npformer.backend.cupy.products import product
from tests.backend.cuda import fake_cublas, guarded

HERE = Path(__file__).parent
SHIM = ("shim.h", "fibers.h", "mistakes.h")
CHECKED = "bounds,alignment,null,shift,signed-integer-overflow,integer-divide-by-zero"
FLAGS = [
    "-std=c++17", "-O1", "-ffp-contract=off",  # no contraction: products and sums are rounded as they are written
    "-shared", "-fPIC", "-fno-exceptions", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE", f"-fsanitize={CHECKED}",
    "-Wall", "-Wextra", "-Wno-unused-function", "-Wno-unused-parameter", "-Werror",
]  # fmt: skip


def compiler_problem():
    """Why kernels cannot be compiled as C++ here, or None."""
    if platform.system() != "Linux":
        return f"kernels run as C++ on Linux alone (fibers, sections), and this is {platform.system()}"
    return None if shutil.which("g++") else "no C++ compiler: g++ was not found"


@cache
def folder():
    """Where libraries are kept: pytest's cache, or, where it cannot be written, a folder of this run's own."""
    kept = HERE.parents[2] / ".pytest_cache" / "kernels"
    try:
        kept.mkdir(parents=True, exist_ok=True)
        if os.access(kept, os.W_OK):
            return kept
    except OSError:
        pass
    return Path(mkdtemp(prefix="npformer-kernels-"))


def wrapped(text, names):
    """C++ of a kernel file's text: for each kernel launch_NAME(blocks, threads, backwards, arguments) and its count."""
    calls = "\n".join(
        f'extern "C" const char *launch_{name}(unsigned blocks, unsigned threads, int backwards, void **arguments) {{\n'
        f"    return each_block({name}, blocks, threads, backwards, arguments);\n}}\n"
        f'extern "C" int arguments_of_{name}() {{ return number_of({name}); }}'
        for name in names
    )
    headers = "\n".join(f'#include "{HERE / name}"' for name in SHIM[:1])
    # without a name: what is shared in a block belongs to this file alone
    return f"{headers}\nnamespace {{\n{text}\n}}\n{calls}\n"


def build(file, dtype):
    """The library of FILE.cu for dtype. Raises RuntimeError with the compiler's words."""
    return build_text(file, wrapped(source(file, dtype), kernels(file)))


def build_text(name, text):
    """The library of a C++ text; compiled if no run before this one did."""
    shim = "".join((HERE / part).read_text(encoding="utf-8") for part in SHIM)
    digest = hashlib.sha256("\0".join([text, shim, *FLAGS]).encode()).hexdigest()[:24]
    built = folder() / f"{name}-{digest}.so"
    if built.exists():
        return built
    written = built.with_suffix(".cpp")
    written.write_text(text, encoding="utf-8")
    making = built.with_suffix(f".{os.getpid()}")
    done = subprocess.run(["g++", *FLAGS, "-o", str(making), str(written)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{name}: g++ refuses it\n{done.stderr}")
    os.replace(making, built)  # whole or not at all, whoever else compiles it now
    return built


@cache
def _soon():
    """Every library, being built on all cores: who needs one needs most of them."""
    pool = ThreadPoolExecutor(os.cpu_count())
    return {(file, dtype): pool.submit(build, file, dtype) for dtype in REAL for file in files()}


@cache
def library(file, dtype):
    """The kernels of FILE.cu for dtype."""
    loaded = ctypes.PyDLL(str(_soon()[file, dtype].result()))
    for name in kernels(file):
        getattr(loaded, f"launch_{name}").restype = ctypes.c_char_p
    return loaded


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
        built = library(file, np.dtype(dtype).name)
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
