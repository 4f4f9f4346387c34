"""Every kernel compiles for today's GPUs and stays within their resources: by NVRTC, which needs no GPU.

NVIDIA's runtime compiler is called by ctypes; its wheel is complete.
"""

import ctypes
import hashlib
import importlib.metadata
import json
import operator
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from npformer.engine.cuda.source import REAL, files, kernels, source
from npformer.engine.cupy.cupy_runtime import OPTIONS
from tests.engine.cuda import host_runtime

#: By CUDA's version: the package that has its NVRTC, and how to install that.
PACKAGES = {12: ("nvidia-cuda-nvrtc-cu12", "in npformer's folder: pip install -e '.[nvrtc]'"),
            13: ("nvidia-cuda-nvrtc", "pip install nvidia-cuda-nvrtc, as .ci/run does")}  # fmt: skip
#: A100; H100 and H200; B200; RTX 50.
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "sm_120")
#: (NVRTC, architecture, dtype): in the sample one NVRTC or the other compiles for each architecture, in one precision.
SAMPLE = [(13 - i % 2, architecture, list(REAL)[i // 2]) for i, architecture in enumerate(ARCHITECTURES)]
EVERY = [(cuda, architecture, dtype) for cuda in PACKAGES for architecture in ARCHITECTURES for dtype in REAL]
ADDED_BY_CUPY = ("--ftz=true",)
SHARED = 48 * 1024  # bytes that a block has without asking for more
REGISTERS = 64 * 1024  # that the threads of a block have together; a warp takes them in pieces of 256
STACK = 64  # bytes of slow local memory that a thread may have: sin and cos of large numbers take 40
FLOAT_ATOMIC = re.compile(r"\b(?:atom|red)\.[\w.]*\b(?:f16|bf16|f32|f64)\w*")


@cache
def library_path(cuda):
    """libnvrtc of that CUDA's wheel, or None."""
    try:
        inside = importlib.metadata.files(PACKAGES[cuda][0]) or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(file.locate()) for file in inside if file.match(f"libnvrtc.so.{cuda}*")), None)


class Resources(NamedTuple):
    """What a kernel takes of a GPU, as ptxas says."""

    registers: int
    shared: int  # bytes
    stack: int  # bytes of a thread's local memory, which is as slow as the GPU's own
    spilled: int  # bytes stored there for want of registers


class Compiled(NamedTuple):
    """What became of a kernel file."""

    status: int
    log: str
    ptx: str
    machine_code: int  # bytes

    def resources(self):
        """By kernel."""
        found = {}
        for part in self.log.split("Compiling entry function '")[1:]:
            said = ("Used ", "reg"), ("", "bytes smem"), ("", "bytes stack"), ("", "bytes spill st")
            numbers = [re.search(rf"{before}(\d+) {behind}", part) for before, behind in said]
            assert all(numbers[:1] + numbers[2:]), part  # who shares nothing has no line for it
            found[part.partition("'")[0]] = Resources(*(int(match[1]) if match else 0 for match in numbers))
        return found


def compiled(text, cuda, architecture, options, kept_in):
    """NVRTC's answer to a kernel file's text; remembered for the next run."""
    flags = [f"--gpu-architecture={architecture}", "--ptxas-options=-v", *options]
    version = importlib.metadata.version(PACKAGES[cuda][0])
    digest = hashlib.sha256("\0".join([text, version, *flags]).encode()).hexdigest()[:24]
    kept = kept_in / f"nvrtc-{digest}.json"
    if kept.exists():
        return Compiled(*json.loads(kept.read_text(encoding="utf-8")))
    found = _compile(library_path(cuda), text, flags)
    kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def _compile(path, text, flags):
    library, program, size = ctypes.CDLL(str(path)), ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None) == 0
    given = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
    status = library.nvrtcCompileProgram(program, len(flags), given)

    def read(what):
        assert getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
        buffer = ctypes.create_string_buffer(size.value)
        assert getattr(library, f"nvrtcGet{what}")(program, buffer) == 0
        return str(buffer.value.decode())

    log = read("ProgramLog")
    if status != 0:
        return Compiled(status, log, "", 0)
    ptx = read("PTX")
    assert library.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    found = Compiled(status, log, ptx, size.value)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return found


def expect_installed(cuda):
    """Skip, visibly, where there is none."""
    if library_path(cuda) is None:
        pytest.skip(f"NVRTC {cuda} is not installed; {PACKAGES[cuda][1]}")


MOST = Resources(registers=255, shared=SHARED, stack=STACK, spilled=0)


def pytest_generate_tests(metafunc):
    if "target" in metafunc.fixturenames:
        targets = EVERY if metafunc.config.getoption("full") else SAMPLE
        metafunc.parametrize("target", targets, ids=lambda target: "-".join(map(str, target)))


def test_every_kernel_is_there_and_fits(target):
    cuda, architecture, dtype = target
    expect_installed(cuda)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        given = architecture, (*OPTIONS, *ADDED_BY_CUPY), host_runtime.folder()
        made = {file: pool.submit(compiled, source(file, dtype), cuda, *given) for file in files()}
    for file, found in made.items():
        expect_fits(file, found.result())
        expect_registers(file, found.result())


def expect_fits(file, found):
    """It compiled, without a warning, to every kernel, and these take what a GPU has."""
    assert found.status == 0, f"{file}: {found.log}"
    assert "warning" not in found.log, f"{file}: {found.log}"
    assert found.machine_code > 0
    resources = found.resources()
    assert sorted(resources) == sorted(kernels(file))
    assert len(resources) >= 1
    for name, takes in resources.items():
        assert all(map(operator.le, takes, MOST)), f"{file}.{name}: {takes}, may take {MOST}"
    # a sum by atomic operations is taken in whatever order threads arrive, so that two runs differ
    assert not FLOAT_ATOMIC.findall(found.ptx), file


def expect_registers(file, found):
    """A block as large as asked for has its registers, else the driver refuses to launch it."""
    for name, takes in found.resources().items():
        threads = host_runtime.MOST_THREADS.get(f"{file}.{name}", 256)
        assert registers_of_a_block(takes.registers, threads) <= REGISTERS, f"{file}.{name}: {takes}, {threads} threads"


def registers_of_a_block(registers, threads):
    """What a block takes whose threads have so many registers each."""
    return -(-threads // 32) * -(-32 * registers // 256) * 256
