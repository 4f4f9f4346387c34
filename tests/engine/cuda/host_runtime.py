"""A device runtime without a GPU: arrays are NumPy's, and the kernels are the same sources compiled as C++.

It is stricter than a GPU: fresh memory is NaN; memory has guard zones on both sides, so that a kernel that writes
outside an array is caught, and one that reads outside gets NaN; what CUDA leaves undefined between the threads of a
block is found (fibers.h). Kernels are compiled once for each source text; the libraries are kept in pytest's cache
folder.
"""

import ctypes
import hashlib
import math
import os
import platform
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from npformer.engine.cuda.source import REAL, files, kernels, source
from npformer.engine.cupy.blas import Blas
from npformer.engine.cupy.cupy_runtime import as_argument
from npformer.engine.cupy.products import Lists, biased_product, product
from tests.engine.cuda import fake_cublas

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
    making = built.with_suffix(f".{os.getpid()}")
    command = ["g++", *FLAGS, "-o", str(making), "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", check=False)
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


#: The most threads that a block of a kernel is asked to have, of kernels that are not here 256. What test_compile.py
#: tells of their registers is about these.
MOST_THREADS = {
    "cross_entropy.mean_loss": 1024, "cross_entropy.token_losses": 512, "cross_entropy.token_losses_backward": 512,
    "embedding.add_chunks": 1024, "embedding.add_edges": 1024, "feed_forward.gelu_rows_backward": 512,
    "layer_norm.norm_rows": 512, "layer_norm.norm_rows_backward": 512, "sums.add_rows": 1024,
}  # fmt: skip
ZONE = 1024  # bytes on either side
GARBAGE = 255  # every byte of fresh memory: NaN in real numbers, −1 in whole ones


class Owner(np.ndarray):
    """Memory that has zones."""

    inside: slice  # what is between them


def guarded(shape, dtype):
    """An array whose memory, and the zones around it, hold garbage; it begins on a boundary of 256 bytes."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    owner = np.ndarray.__new__(Owner, (ZONE + 256 + size + ZONE,), np.uint8)
    owner.fill(GARBAGE)
    start = ZONE + -(owner.ctypes.data + ZONE) % 256
    owner.inside = slice(start, start + size)
    return owner[owner.inside].view(np.ndarray).view(dtype).reshape(shape)


def owner_of(x):
    """The array to which the memory of x belongs."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def expect_clean(owner, kernel):
    """Fail if a zone holds something else than garbage."""
    for side, zone in (("before", owner[: owner.inside.start]), ("behind", owner[owner.inside.stop :])):
        assert (zone == GARBAGE).all(), (
            f"{kernel}: wrote {side} an array of {owner.inside.stop - owner.inside.start} bytes"
        )


@contextmanager
def in_guarded_memory(arrays, kernel):
    """Addresses of arrays for a kernel. Memory without zones is lent a copy that has them, and gets back what changed.

    Raises AssertionError where something was written outside an array, or into a read-only one.
    """
    lent = {}  # owner's id: the guarded copy of its bytes
    addresses = []
    for x in arrays:
        owner, address = owner_of(x), x.ctypes.data
        if not isinstance(owner, Owner):
            own = bytes_of(owner)
            if id(owner) not in lent:
                lent[id(owner)] = guarded(own.shape, np.uint8)
                lent[id(owner)][...] = own
            address += lent[id(owner)].ctypes.data - own.ctypes.data
        addresses.append(address)
    yield addresses
    for x in arrays:
        owner = owner_of(x)
        copy = lent.get(id(owner))
        expect_clean(owner if copy is None else owner_of(copy), kernel)
        if copy is not None and not np.array_equal(bytes_of(owner), copy):
            assert x.flags.writeable, f"{kernel}: wrote into a read-only array of shape {x.shape}"
            bytes_of(owner)[...] = copy


def bytes_of(owner):
    """All bytes of an array that lives as long as they are used, those between its numbers too."""
    low, high = np.lib.array_utils.byte_bounds(owner)
    return np.frombuffer((ctypes.c_char * (high - low)).from_address(low), np.uint8)


def is_in_memory(x):
    """Whether a kernel is given an address for x: it is an array, and no struct."""
    return isinstance(x, np.ndarray) and not x.dtype.names


def in_c(x):
    """What a kernel is given for a number, as the real GPU gives it; None is a null pointer."""
    number = as_argument(x)
    if isinstance(number, np.ndarray):
        return (ctypes.c_char * number.nbytes).from_buffer_copy(number)
    kind = {np.int64: ctypes.c_longlong, np.float64: ctypes.c_double}.get(type(number))
    assert kind is not None, f"an argument that no kernel takes: {type(x)}"
    return kind(number)


class HostRuntime:
    """See the module's docstring. ``launched`` counts kernels by name.

    ``block`` is how many threads a block has, whatever was asked for (None: as many as were), and
    ``backwards`` in which order blocks and threads run.
    """

    later = None

    def __init__(self, precision="float32", block=1, backwards=False):
        self.precision = precision
        self.block, self.backwards = block, backwards
        self.launched = []
        self.cublas = fake_cublas.FakeCublas()
        self.blas = Blas(self.cublas)
        self.workspace = self.empty((256,), np.uint8)
        self.blas.use(1, self.address(self.workspace), self.workspace.nbytes)

    def empty(self, shape, dtype):
        return guarded(shape, dtype)  # whoever reads before writing is found out: it is NaN

    def contiguous(self, x):
        return np.ascontiguousarray(x)

    def launch(self, kernel, dtype, blocks, threads, *arguments):
        file, _, name = kernel.partition(".")
        assert 0 <= blocks < 2**31, f"{kernel}: {blocks} blocks"
        assert 1 <= threads <= MOST_THREADS.get(kernel, 256), f"{kernel}: {threads} threads in a block"
        if blocks == 0:
            return
        built = library(file, np.dtype(dtype).name)
        wanted = getattr(built, f"arguments_of_{name}")()
        assert len(arguments) == wanted, f"{kernel}: {wanted} arguments, got {len(arguments)}"
        arrays = [x for x in arguments if is_in_memory(x)]
        with in_guarded_memory(arrays, kernel) as addresses:
            places = iter(addresses)
            made = [ctypes.c_void_p(next(places)) if is_in_memory(x) else in_c(x) for x in arguments]
            pointers = (ctypes.c_void_p * len(made))(*(ctypes.addressof(x) for x in made))
            problem = getattr(built, f"launch_{name}")(blocks, self.block or threads, int(self.backwards), pointers)
            assert problem is None, f"{kernel}: {problem.decode()}"
        self.launched.append(kernel)

    def lists(self, *arrays):
        return Lists(self, arrays)

    def product(self, a, b, out, *, add=False, scale=1.0, lists=None):
        return product(self, a, b, out, add, scale, lists)

    def biased_product(self, a, b, bias, out):
        return biased_product(self, a, b, bias, out)

    def address(self, x):
        """Where x's first number is."""
        return int(x.ctypes.data)
