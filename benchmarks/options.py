"""The command-line options that the benchmarks share, and the checks made before anything starts."""

import argparse
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

from benchmarks.turns import Budget, ContenderError, Entry
from npformer.backend import cupy_problem
from npformer.backend.backend import PRECISIONS
from npformer.errors import NpformerError
from npformer.models.presets import PRESETS

KERNELS = {"numpy": ("numba", "numpy", "plain"), "cupy": ("cuda", "plain")}
NO_TORCH = (
    "--against torch: expected PyTorch, it is not installed; in npformer's folder: pip install -e '.[bench]' "
    "(a CPU build will do), or use --against none"
)
CPU_TORCH = (
    "--against torch: expected a build of PyTorch for CUDA beside --device cupy, got {version}; install one as "
    "pytorch.org says, or use --against none"
)


class UsageError(argparse.ArgumentTypeError):
    """The command cannot run as given; the message says how to fix it."""


def bare_parser(name, summary, examples=None, json=True):
    """A parser that shows summary and examples unchanged; json: with --json."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=summary,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if json:
        parser.add_argument("--json", action="store_true", help="print one JSON document, for machines")
    return parser


def at_least_1(text):
    """The integer that an option was given. Raises UsageError if it is none, or below 1."""
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"expected an integer >= 1, got {text}")
    return int(text)


def new_parser(name, summary, examples, sizes, kernels, seconds):
    """A parser with the options of all benchmarks; sizes, kernels and seconds are defaults."""
    parser = bare_parser(name, summary, examples)
    parser.set_defaults(on_cpu=kernels)
    add = parser.add_argument
    add("--device", choices=("numpy", "cupy"), default="numpy", help="where npformer computes (default: numpy)")
    known = "; ".join(f"on {device} of {', '.join(names)}, auto" for device, names in KERNELS.items())
    add("--kernels", help=f"npformer's kernels, {known} (default: {kernels} on numpy, cuda on cupy)")
    add("--keep-env", action="store_true", help="keep variables such as OPENBLAS_CORETYPE and *_NUM_THREADS")
    add("--size", default=sizes, help=f"model sizes, from {', '.join(PRESETS)} (default: {sizes})")
    add("--against", choices=("torch", "none"), default="torch", help="the peer (default: torch)")
    add("--seconds", type=float, default=seconds, help=f"per comparison, a few rounds at least (default: {seconds:g})")
    add("--rounds", type=at_least_1, help="at most this many rounds, for a quick look")
    precisions = ", ".join(PRECISIONS)
    add(
        "--precision",
        default=None,
        help=f"precision of matrix products, from {precisions} (default: all on a GPU, float32 on a CPU)",
    )
    add_save(parser)
    return parser


def add_save(parser):
    """Add the option --save, which names a file for the measurements."""
    parser.add_argument("--save", type=_result_file, metavar="FILE", help="write the JSON document to this file, too")


def _result_file(text):
    """A file that can be written once everything is measured. Raises UsageError, before, if it cannot."""
    path = Path(text)
    if path.suffix != ".json" or not path.parent.is_dir():
        raise UsageError(f"expected a .json file in an existing folder, got {path}")
    return path


def checked(args):
    """The checked options. Raises UsageError for options that make no sense or cannot run here.

    New are sizes, precisions, torch (whether it is the peer) and budget; kernels are a list; own are the options of one
    benchmark only.
    """
    if not args.seconds > 0:
        raise UsageError(f"--seconds: expected a number > 0, got {args.seconds}")
    common = {"device", "size", "kernels", "on_cpu", "precision", "against", "seconds", "rounds", "keep_env", "json",
              "save"}  # fmt: skip
    args.own = {name: value for name, value in vars(args).items() if name not in common}
    args.sizes = listed("--size", args.size, PRESETS)
    kernel_names = args.kernels or (args.on_cpu if args.device == "numpy" else "auto")
    kernels = [
        _resolved(name, args.device) for name in listed("--kernels", kernel_names, (*KERNELS[args.device], "auto"))
    ]
    args.kernels, args.precisions = list(dict.fromkeys(kernels)), _precisions(args)
    args.torch, args.budget = args.against == "torch", Budget(args.seconds, args.rounds)
    if args.torch and not installed("torch"):
        raise UsageError(NO_TORCH)
    if args.device == "cupy":
        check_gpu(args.torch)
    return args


def check_gpu(torch):
    """Raise UsageError with the missing part unless a GPU is usable; PyTorch, if wanted, must be built for CUDA."""
    problem = cupy_problem()
    if problem is not None:
        raise UsageError(f"--device cupy: {problem}; or use --device numpy")
    if torch and "+cpu" in (version := importlib.metadata.version("torch")):
        raise UsageError(CPU_TORCH.format(version=version))


def _precisions(args):
    names = listed(
        "--precision", args.precision or ("float32" if args.device == "numpy" else ",".join(PRECISIONS)), PRECISIONS
    )
    if args.device == "numpy" and names != ["float32"]:
        raise UsageError(
            f"--precision: expected float32 on a CPU, got {args.precision!r}; tf32 and bfloat16 are for --device cupy"
        )
    return names


def listed(option, text, known):
    """The names in a list separated by commas. Raises UsageError for an unknown name."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise UsageError(f"{option}: expected names from {', '.join(known)}, separated by commas, got {name!r}")
    return names


def numbers(option, text, low, below):
    """The numbers in a list separated by commas. Raises UsageError unless low ≤ each < below."""
    try:
        values = [float(each) for each in text.split(",")]
    except ValueError:
        raise UsageError(f"{option}: expected numbers separated by commas, got {text!r}") from None
    for number in values:
        if not low <= number < below:
            raise UsageError(f"{option}: expected {low:g} <= number < {below:g}, got {number:g}")
    return values


def installed(package):
    """Whether a package could be imported, without importing it."""
    return importlib.util.find_spec(package) is not None


def own_entries(tables, factory, common):
    """npformer with each of these kernel tables, as contenders that this factory makes."""
    return [
        Entry(f"npformer-{kernels}", factory, {**common, "kernels": kernels}, imports_of(kernels)) for kernels in tables
    ]


def imports_of(kernels):
    """The modules that a contender with these kernels loads first."""
    return ("numba",) if kernels == "numba" else ()


def run(parser, benchmark):
    """Parse, check, run. Exit code: 0 done, 1 a contender failed or computes something else, 2 bad input."""
    try:
        return benchmark(checked(parser.parse_args()))
    except UsageError as error:
        return _say(error, 2)
    except (ContenderError, NpformerError) as error:
        return _say(error, 1)
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except BrokenPipeError:  # the reader of the report has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else flushing at exit would fail
        return 1


def _resolved(kernels, device):
    if device == "cupy":
        return "cuda" if kernels == "auto" else kernels
    if kernels == "auto":
        return "numba" if installed("numba") else "numpy"
    if kernels == "numba" and not installed("numba"):
        raise UsageError(
            "--kernels numba: expected Numba, it is not installed; in npformer's folder: pip install -e '.[fast]', "
            "or use --kernels numpy"
        )
    return kernels


def _say(what, code):
    print(f"benchmarks: {what}", file=sys.stderr)
    return code
