"""NVIDIA's runtime compiler of kernels, by ctypes: it needs no GPU, and its wheel is complete."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple


@cache
def library_path():
    """libnvrtc of the wheel nvidia-cuda-nvrtc-cu12 (or of a later CUDA), or None."""
    for package in ("nvidia.cuda_nvrtc", "nvidia.cu13"):
        try:
            found = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in (found.submodule_search_locations or []) if found else []:
            for path in sorted(Path(folder).glob("lib/libnvrtc.so.*")):
                return path
    return None


def nvrtc_problem():
    """Why kernels cannot be compiled for a GPU here, or None."""
    return None if library_path() else "NVRTC is not installed; in npformer's folder: pip install '.[nvrtc]'"


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
            used, shared, stack, spilled = (
                re.search(rf"{before}(\d+) {behind}", part)
                for before, behind in (
                    ("Used ", "reg"),
                    ("", "bytes smem"),
                    ("", "bytes stack"),
                    ("", "bytes spill st"),
                )
            )
            assert used is not None, part
            assert stack is not None, part
            assert spilled is not None, part
            numbers = (int(match[1]) if match else 0 for match in (used, shared, stack, spilled))
            found[part.partition("'")[0]] = Resources(*numbers)
        return found


@cache
def _nvrtc():
    return ctypes.CDLL(str(library_path()))


def compiled(text, architecture, options, kept_in):
    """NVRTC's answer to a kernel file's text; remembered for the next run."""
    flags = [f"--gpu-architecture={architecture}", "--ptxas-options=-v", *options]
    digest = hashlib.sha256("\0".join([text, str(library_path()), *flags]).encode()).hexdigest()[:24]
    kept = kept_in / f"nvrtc-{digest}.json"
    if kept.exists():
        return Compiled(*json.loads(kept.read_text(encoding="utf-8")))
    found = _compile(text, flags)
    kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def _compile(text, flags):
    nvrtc, program, size = _nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None) == 0
    given = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
    status = nvrtc.nvrtcCompileProgram(program, len(flags), given)

    def read(what):
        assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
        buffer = ctypes.create_string_buffer(size.value)
        assert getattr(nvrtc, f"nvrtcGet{what}")(program, buffer) == 0
        return str(buffer.value.decode())

    log = read("ProgramLog")
    if status != 0:
        return Compiled(status, log, "", 0)
    ptx = read("PTX")
    assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    found = Compiled(status, log, ptx, size.value)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return found
