"""Kernels compiled as C++, once for each source text; the libraries are kept in pytest's cache folder."""

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

from npformer.backend.cuda.source import REAL, files, kernels, source

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
