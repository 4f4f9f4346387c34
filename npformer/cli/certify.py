"""npformer certify: properties that a gradient check cannot see."""

from __future__ import annotations

import argparse
from textwrap import fill

from npformer.check import INVARIANTS, Report, catalogue, certify
from npformer.check.adapters.user_file import user_case
from npformer.cli.common import add_backend_of_checks, backend_of, backend_of_checks, finished, tell
from npformer.errors import ConfigError
from npformer.io.progress_bar import watched
from npformer.io.seconds import now, since
from npformer.io.terminal import columns, counted

SUMMARY = "Check what a gradient check cannot see."
EXAMPLES = """examples:
  npformer certify                       every operation, layer and small model
  npformer certify --only Transformer    the models alone
  npformer certify --model mine.py       a model of your own (see npformer gradcheck --help)
  npformer certify --list                the meaning of each invariant

An invariant is a property that a gradient check cannot see: causality, padding, order, accumulation."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add("--only", metavar="TEXT", default="", help="only targets whose name contains TEXT")
    add("--model", metavar="FILE.py[:NAME]", help="certify what NAME() (default build) in FILE returns")
    add("--list", action="store_true", help="list the invariants, and stop")
    add("--full", action="store_true", help="also list claims that hold or do not apply")
    add_backend_of_checks(parser)


def run(args: argparse.Namespace) -> int:
    """Exit 1 if any claim does not hold."""
    if args.list:
        meanings = {name: check.meaning for name, check in INVARIANTS.items()}
        margin, wide = " " * 4, columns()
        lines = [f"{name}\n{fill(text, wide, initial_indent=margin, subsequent_indent=margin)}"
                 for name, text in meanings.items()]  # fmt: skip
        return finished(args, meanings, "\n".join(lines))
    backend = backend_of_checks(args, "float64")
    cases = [user_case(args.model)] if args.model else catalogue(args.only)
    if not cases:
        raise ConfigError(f"--only: expected a part of a target's name, such as attention, got {args.only!r}")
    start, results = now(), []
    for case in watched(cases, "certify", name=lambda case: case.name):
        report = certify(case.build(backend), *case.inputs, name=case.name, device=backend.device, **case.options)
        results.append(report)
        if not args.json and (args.full or args.model or not report.ok):
            tell("\n".join([*report.lines(columns()), ""]))
    ok = all(report.ok for report in results)
    used, reports = backend_of(cases[0], backend), [report.to_dict() for report in results]
    told = {"ok": ok, "backend": used and str(used), "reports": reports}
    return finished(args, told, _summary(results, since(start)), ok)


def _summary(reports: list[Report], seconds: float) -> str:
    holding = sum(claim.holds for report in reports for claim in report.claims)
    failing = [f"{report.name}: {claim.name}" for report in reports for claim in report.claims if claim.fails]
    if failing:
        return f"{len(failing)} of {holding + len(failing)} claims do not hold ({seconds:.0f} s):\n  " + "\n  ".join(
            failing
        )
    return f"all {holding} claims that apply to {counted(len(reports), 'target')} hold ({seconds:.0f} s)"
