"""npformer compile: compile every Numba kernel ahead of its first use."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from npformer.backend.select import numba_problem
from npformer.cli.common import finished
from npformer.errors import DeviceError
from npformer.io.seconds import now, since

DTYPES = ("float32", "float64")

SUMMARY = "Compile every Numba kernel now instead of at its first use."
EXAMPLES = """examples:
  npformer compile                     every kernel, in both precisions
  npformer compile --dtype float32     the precision that training and decoding use by default
  npformer compile --json | jq .folder

Without this command, a training step or a decoder compiles its model's kernels when it is created. Kernels are
compiled once, one per core at a time, and kept in the user's cache or in $NUMBA_CACHE_DIR.

exit code: 0 all kernels are compiled and kept, 1 some cannot be kept, 2 Numba cannot be used"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "--dtype", choices=(*DTYPES, "both"), default="both", help="the precision of the kernels (default: both)"
    )


def run(args: argparse.Namespace) -> int:
    """Exit 1 unless the next process will find every kernel on disk."""
    problem = numba_problem()
    if problem is not None:
        raise DeviceError(f"compile: expected a usable Numba, but {problem}")
    from npformer.engine.numba import compile_all
    from npformer.engine.numba.kernel_folder import usual_folder

    dtypes: dict[str, dict[str, Any]] = {}
    began, lost = now(), 0
    for dtype in DTYPES if args.dtype == "both" else (args.dtype,):
        kernels, compiled = compile_all(dtype)
        dtypes[dtype] = {"kernels": len(kernels), "compiled": [each.name for each in compiled]}
        lost += sum(not each.is_kept(dtype) for each in kernels)
    folder, seconds = str(usual_folder()), since(began)
    lines = [f"{dtype}: {each['kernels']} kernels, {len(each['compiled'])} of them compiled now"
             for dtype, each in dtypes.items()]  # fmt: skip
    if lost:
        print(f"npformer: {folder}: expected to keep every kernel there, but {lost} are not kept", file=sys.stderr)
    else:
        lines.append(f"kept in {folder} ({seconds:.0f} s)")
    told = {"ok": not lost, "folder": folder, "not_kept": lost, "seconds": seconds, "dtypes": dtypes}
    return finished(args, told, "\n".join(lines), not lost)
