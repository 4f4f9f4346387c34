"""npformer gradcheck: check the gradient of every operation, layer and small model."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from npformer.backend import Backend
from npformer.check import Case, Report, catalogue
from npformer.check.adapters.user_file import UserCase, user_case
from npformer.check.cases.catalogue import random_cases, selected
from npformer.check.curves import v_curves
from npformer.check.regimes import chosen
from npformer.check.report import HEADER, WRONG, table_line
from npformer.check.rounding.budget import against_float64
from npformer.cli.common import add_backend_of_checks, backend_of, backend_of_checks, finished, tell
from npformer.errors import ConfigError
from npformer.io.printable import visible
from npformer.io.progress_bar import watched
from npformer.io.seconds import now, since
from npformer.io.terminal import columns, counted, fill, folded
from npformer.layers import Layer
from npformer.see.plot import draw_sweep
from npformer.see.plot.svg import check_place
from npformer.see.record.bisect import Bisection, bisect

SUMMARY = "Check every gradient against complex step and central differences."
EXAMPLES = """examples:
  npformer gradcheck                           everything, in less than a minute
  npformer gradcheck --only attention          this operation alone; --only Attention: all of that name
  npformer gradcheck --model mine.py           a model of your own, see below
  npformer gradcheck --model mine.py --bisect  down to the first wrong operation
  npformer gradcheck --only softmax --sweep v.svg
  npformer gradcheck --dtype float32           float32 against float64
  npformer gradcheck --random 200              4,800 random draws, 20 of the model
  npformer gradcheck --model mine.py --regimes all
  npformer gradcheck --json | jq '.checks[] | select(.ok | not)'

A gradient is right if two rules hold for each entry. First, its error is at most 1e-10 of the tensor's largest entry
or of a thousandth of the check's largest entry, whichever is greater. Second, its error is at most 1e-10 of the sizes
of the terms whose sum it is, rounding apart, so a large entry hides no small one.

error belongs to the first rule, at the named worst element or random direction; where only the second rule fails, it
belongs to the second, and a note says so. numeric is the gradient by the complex step; central differences are
compared, too. The check notices functions without a complex step (np.var, abs, linalg.norm) and uses differences
alone. ratio is analytic/numeric, or – where both are 0.

--sweep draws the error of central differences against their step size h. --dtype float32 compares float32 gradients
with float64 ones, within a measured budget.

--regimes makes each check again where kernels often fail, and at other sizes: certain scores, saturated gates, zeros,
ties, repeated ids, masks that hide all, one row, the edges of blocks. A regime: confident, saturated above, saturated
below, saturated, nearly constant, offset, times 3, times 10, tiny, zeros, ties, negative, repeated ids, all padded.

mine.py has a function build() that returns (model, inputs) or (model, inputs, options). The model has a backend of its
own. For example:

  import numpy as np
  import npformer as npf

  def build():
      backend = npf.get_backend("numpy", kernels="plain")
      layer = npf.layers.EncoderLayer(4, 2, 6, backend=backend)
      return layer, (np.random.default_rng(0).normal(size=(2, 3, 4)),)"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add(
        "--only",
        metavar="TEXT",
        default="",
        help="only this operation or layer; if none has this name, all whose name contains it",
    )
    add("--model", metavar="FILE.py[:NAME]", help="check what NAME() (default build) in FILE returns")
    add("--bisect", action="store_true", help="find the first wrong operation of a wrong target")
    add("--sweep", metavar="SVG", type=Path, help="draw the error against the step size h")
    add("--regimes", metavar="all|NAME,…", type=names, help="also where these regimes change the inputs, see below")
    add("--dtype", choices=("float64", "float32"), default="float64",
                        help="float32: compare float32 gradients with float64 ones")  # fmt: skip
    add("--random", metavar="N", type=int, help="check N random cases of every operation and N/10 of the model")
    add("--seed", type=int, default=0, help="the seed of --random")
    add("--full", action="store_true", help="list every tensor of a model, not only the worst")
    add_backend_of_checks(parser)


def run(args: argparse.Namespace) -> int:
    """Exit 1 if any gradient is not right."""
    if args.sweep is not None:
        check_place(args.sweep)  # before the checks, not after them
    backend = backend_of_checks(args, args.dtype)
    cases = _cases(args)
    used = backend_of(cases[0], backend)
    start = now()
    results = []
    if not args.json:
        witness = "float64" if backend.dtype == "float32" else "numerical ones"
        computed = "of your functions" if used is None else f"with {used}"
        print(fill(f"gradients {computed}, against {witness}", columns()))
        print(table_line(HEADER, columns=columns()))
    for case in watched(cases, "gradcheck", name=lambda case: case.name):
        report = _checked(case, backend, args.regimes)
        bisection = _bisection(case, report, backend) if args.bisect else None
        results.append((case, report, bisection))
        if not args.json and not (report.ok and args.random):  # thousands of right reports are not printed one by one
            _tell(case, report, bisection, args)
    reports = [report for _, report, _ in results]
    ok = all(report.ok for report in reports)
    if args.sweep is not None:
        _draw(results, backend, args.sweep)
        if not args.json:
            print(f"the error against the step size is drawn in {visible(args.sweep)}")
    checks = [
        report.to_dict() | ({"path": [call.name for call, _ in bisection.path]} if bisection else {})
        for _, report, bisection in results
    ]
    told = {"ok": ok, "backend": used and str(used), "checks": checks}
    return finished(args, told, _summary(reports, since(start)), ok)


def names(text: str) -> tuple[str, ...]:
    """Words, separated by commas."""
    return tuple(word.strip() for word in text.split(","))


def _tell(case: Case, report: Report, bisection: Bisection | None, args: argparse.Namespace) -> None:
    """Print a check's report, and its first wrong part if that was asked for."""
    tell(_section(report, fold=case.group == "model" and not args.full))
    if bisection is not None:
        tell("\n".join(["", *bisection.lines(columns()), ""]))
    elif args.bisect and args.model and not report.ok:
        tell("  (no parts to look into: the target is no npformer.layers.Layer, nor derived from it)")


def _cases(args: argparse.Namespace) -> list[Case]:
    """The checks to run. Raises ConfigError for options that do not go together or select nothing."""
    if args.regimes:
        chosen(args.regimes, ())  # before the checks, not after them
    if args.random is not None:
        if args.random < 1 or args.model or args.seed < 0:
            raise ConfigError("--random: expected N >= 1, --seed >= 0 and no --model")
        drawn = random_cases(args.random, max(1, args.random // 10), args.seed)
        cases = selected(drawn, args.only)
    elif args.model:
        if args.only:
            raise ConfigError(f"--only: expected no --model beside it, which is one check alone, got {args.only!r}")
        cases = [user_case(args.model)]
    else:
        cases = list(catalogue(args.only))
    if args.dtype == "float32":
        if args.regimes:
            raise ConfigError("--dtype float32: expected no --regimes, which need float64")
        if args.bisect or args.sweep:
            raise ConfigError("--dtype float32: expected no --bisect and no --sweep, which need float64")
        if args.model:
            raise ConfigError("--dtype float32: expected no --model, which brings a dtype of its own")
        cases = [case for case in cases if not case.float64_only]
    if not cases:
        raise ConfigError(f"--only: expected a part of a check's name, such as attention, got {args.only!r}")
    return cases


def _checked(case: Case, backend: Backend, regimes: tuple[str, ...] | None) -> Report:
    if backend.dtype == "float64":
        return case.check(backend, **({"regimes": regimes} if regimes else {}))
    return against_float64(case.build, case.inputs, case.options, backend, case.name)


def _bisection(case: Case, report: Report, backend: Backend) -> Bisection | None:
    """The first wrong part of a wrong layer or model; None for right targets and for single operations."""
    target = case.build(backend)
    if report.ok or not isinstance(target, Layer):
        return None
    complex_step = not isinstance(case, UserCase) or case.how.get("complex_step", True)
    return bisect(target, *case.inputs, complex_step=complex_step, **case.options)


def _draw(results: list[tuple[Case, Report, Bisection | None]], backend: Backend, path: Path) -> None:
    curves = [
        curve
        for case, report, _ in watched(results, "curves of the error", name=lambda checked: checked[0].name)
        for curve in v_curves(report, case.build(backend), case.inputs, case.options, **_drawn_as(case, backend))
    ]
    draw_sweep(curves, path)


def _drawn_as(case: Case, backend: Backend) -> dict[str, Any]:
    """Device and seed of a case's check; a user's target has its own device."""
    if isinstance(case, UserCase):
        return {"device": case.how.get("device"), "seed": case.how.get("seed", 0)}
    return {"device": backend.device}


def _section(report: Report, fold: bool) -> str:
    """A check's rows below its name; folded, only its failures or its worst row."""
    rows = [row for row in report.rows if not row.ok] or [report.worst] if fold else report.rows
    note = f"  (worst of {len(report.rows)} tensors)" if fold and report.ok else ""
    lines = replace(report, rows=tuple(rows)).body(2, columns())
    return "\n".join([folded(report.name + note, sys.stdout, hanging="    "), *lines])


def _summary(reports: list[Report], seconds: float) -> str:
    tensors = sum(len(report.rows) for report in reports)
    wrong = [f"{report.name}: {row.tensor}" for report in reports for row in report.rows if not row.ok]
    wrong += [f"{report.name}: in {one}" for report in reports for one in report.regimes if one.verdict == WRONG]
    worst = max((row.scaled_error for report in reports for row in report.rows), default=0.0)
    if wrong:
        return f"{len(wrong)} of {tensors} gradients are not right ({seconds:.0f} s):\n  " + "\n  ".join(wrong)
    all_right = f"all {tensors} gradients of {counted(len(reports), 'check')} are right"
    return fill(f"{all_right}; largest error {worst:.1e} ({seconds:.0f} s)", columns())
