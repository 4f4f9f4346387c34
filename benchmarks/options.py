"""The options that the benchmarks share, and the way from a command line to a saved document."""

import argparse
import importlib.util
import sys
from pathlib import Path

from benchmarks import machine, report
from benchmarks.harness import Budget, ContenderError, Entry
from npformer.errors import NpformerError
from npformer.models.presets import PRESETS

KERNELS = ("numba", "numpy", "plain")


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


def some_of(known):
    """The type of an option that takes names of these, separated by commas."""

    def names(text):
        for name in text.split(","):
            if name not in known:
                raise UsageError(f"expected names from {', '.join(known)}, separated by commas, got {name!r}")
        return text.split(",")

    return names


def numbers(low, below, kind=float):
    """The type of an option that takes numbers, separated by commas, with low <= number < below."""

    def parsed(text):
        try:
            found = [kind(each) for each in text.split(",")]
        except ValueError:
            raise UsageError(f"expected numbers separated by commas, got {text!r}") from None
        for number in found:
            if not low <= number < below:
                raise UsageError(f"expected {low:g} <= number < {below:g}, got {number:g}")
        return found

    return parsed


def add_save(parser):
    """Add the option --save, which names a file for the measurements."""
    parser.add_argument("--save", type=_result_file, metavar="FILE", help="write the JSON document to this file, too")


def _result_file(text):
    """A file that can be written once everything is measured. Raises UsageError, before, if it cannot."""
    path = Path(text)
    if path.suffix != ".json" or not path.parent.is_dir():
        raise UsageError(f"expected a .json file in an existing folder, got {path}")
    return path


def new_parser(name, summary, sizes, seconds):
    """A parser with the options of what is measured beside PyTorch; sizes and seconds are defaults."""
    parser = bare_parser(name, summary)
    add, kernels = parser.add_argument, "numba" if installed("numba") else "numpy"
    add("--kernels", type=some_of(KERNELS), default=kernels, help=f"of {', '.join(KERNELS)} (default: {kernels})")
    add("--size", type=some_of(PRESETS), default=sizes, help=f"of {', '.join(PRESETS)} (default: {sizes})")
    add("--against", choices=("torch", "none"), default="torch", help="the peer (default: torch)")
    add("--seconds", type=numbers(1e-9, 1e9), default=[seconds], help=f"of a comparison (default: {seconds:g})")
    add("--rounds", type=at_least_1, help="at most this many rounds, for a quick look")
    add_save(parser)
    return parser


def answered(parser, results, table, holds=lambda result: True):
    """Parse, measure, print the table of the pages and save.

    results(args, environment) yields the results. Exit code: 0 done, 1 a contender failed or computes something else, 2
    bad input.
    """
    args = parser.parse_args()
    args.torch, args.budget = args.against == "torch", Budget(args.seconds[0], args.rounds)
    if args.torch and not installed("torch"):
        parser.error("--against torch: expected PyTorch: pip install -e '.[bench]', or use --against none")
    if "numba" in args.kernels and not installed("numba"):
        parser.error("--kernels numba: expected Numba: pip install -e '.[fast]', or use --kernels numpy")
    environment, removed = machine.contenders_environment()
    settings = {name: x for name, x in vars(args).items() if name not in ("json", "save", "torch", "budget")}
    head = {"benchmark": parser.prog.rpartition(".")[2], "settings": settings | {"device": "numpy"}}
    head["machine"] = machine.describe(removed, "numpy", ["float32"])
    found = []
    try:
        for result in results(args, environment):
            found.append(result)
            report.progress(f"{len(found)} measured …")
    except (ContenderError, NpformerError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    report.progress("")
    report.finish(head | {"results": found}, args, table)
    return 0 if all(map(holds, found)) else 1


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
