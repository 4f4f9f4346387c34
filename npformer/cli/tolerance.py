"""npformer tolerance: the atol and rtol that a test of a kernel may have, and what one lets see."""

from __future__ import annotations

import argparse

from npformer.backend import get_backend
from npformer.check import tolerance
from npformer.check.adapters.user_file import user_case
from npformer.check.rounding.formats import FORMATS, STORED
from npformer.cli.common import finished

SUMMARY = "Measure the tolerance that rounding justifies, or try one of yours."
EXAMPLES = """examples:
  npformer tolerance mine.py:pair --precision bfloat16              lines to paste into a test
  npformer tolerance mine.py --precision tf32 --atol 1e-3 --rtol 1e-3  what this tolerance lets see

mine.py has a function build(), or of the name given, that returns (reference, inputs) or (reference, inputs, options).
The reference is right: check it first, with npformer gradcheck --model mine.py. It runs in float64, at numbers that
the precision can hold, and again with every operation rounded as a kernel would: each result is stored in the
precision, and sums are added up in float32, in any order. The margin is one failure of a right kernel in a million
tests, by the law that fits the draws. An option sample of mine.py, a function of a random generator that gives inputs,
makes it hold for them."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add("reference", metavar="FILE.py[:NAME]", help="what NAME() (default build) in FILE returns")
    stored = f"what the kernel stores, of {', '.join(STORED)} (default: float32)"
    add("--precision", choices=tuple(STORED), default="float32", metavar="NAME", help=stored)
    add("--accumulate", choices=tuple(FORMATS), metavar="NAME", help="what it adds up in (default: float32)")
    add("--atol", type=float, metavar="X", help="try this tolerance instead (default: 0, if --rtol is given)")
    add("--rtol", type=float, metavar="X", help="the same (default: 0, if --atol is given)")


def run(args: argparse.Namespace) -> int:
    """Exit 1 if the tolerance fails a right kernel, or lets a term of the reference's backward be lost."""
    case = user_case(args.reference)
    target = case.build(get_backend("numpy", dtype="float64", kernels="plain"))
    options = {key: value for key, value in case.how.items() if key in ("names", "constant", "sample", "seed")}
    found = tolerance(
        target, *case.inputs, precision=args.precision, accumulate=args.accumulate, atol=args.atol, rtol=args.rtol,
        **options, **case.options,
    )  # fmt: skip
    return finished(args, found.to_dict(), str(found), found.ok)
