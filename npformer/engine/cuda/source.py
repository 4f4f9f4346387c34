"""The source text of the kernels. NVRTC compiles it for a GPU, a C++ compiler for the tests."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
INCLUDE = re.compile(r'^#include "(\w+\.cuh)"\n', re.MULTILINE)
KERNEL = re.compile(r'extern "C" __global__ (?:__launch_bounds__\([\d, ]+\) )?void (\w+)\(')

#: The C name of each dtype.
REAL = {"float32": "float", "float64": "double"}


def files() -> list[str]:
    """The names of the .cu files, without the suffix."""
    return sorted(path.stem for path in HERE.glob("*.cu"))


@cache
def source(file: str, dtype: str) -> str:
    """The whole text of FILE.cu for real numbers of dtype, with each included file once."""
    seen: set[str] = set()

    def part(match: re.Match[str]) -> str:
        if match[1] in seen:
            return ""
        seen.add(match[1])
        return INCLUDE.sub(part, (HERE / match[1]).read_text(encoding="utf-8"))

    text = INCLUDE.sub(part, (HERE / f"{file}.cu").read_text(encoding="utf-8"))
    return f"typedef {REAL[dtype]} real;\n{text}"


def kernels(file: str) -> list[str]:
    """The kernels that FILE.cu defines."""
    return KERNEL.findall((HERE / f"{file}.cu").read_text(encoding="utf-8"))
