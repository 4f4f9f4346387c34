"""npformer certify: properties that a gradient check cannot see."""

from __future__ import annotations

import argparse
import json
from textwrap import fill

from npformer.check import INVARIANTS, Report, catalogue, certify
from npformer.check.adapters.user_file import user_case
from npformer.cli.common import add_backend_of_checks, backend_of, backend_of_checks, tell
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
        return _list(args.json)
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
    if args.json:
        used = backend_of(cases[0], backend)
        reports = [report.to_dict() for report in results]
        print(json.dumps({"ok": ok, "backend": used and str(used), "reports": reports}))
    else:
        tell(_summary(results, since(start)))
    return 0 if ok else 1


def _summary(reports: list[Report], seconds: float) -> str:
    holding = sum(claim.holds for report in reports for claim in report.claims)
    failing = [f"{report.name}: {claim.name}" for report in reports for claim in report.claims if claim.fails]
    if failing:
        return f"{len(failing)} of {holding + len(failing)} claims do not hold ({seconds:.0f} s):\n  " + "\n  ".join(
            failing
        )
    return f"all {holding} claims that apply to {counted(len(reports), 'target')} hold ({seconds:.0f} s)"


def _list(as_json: bool) -> int:
    meanings = {name: check.meaning for name, check in INVARIANTS.items()}
    if as_json:
        print(json.dumps(meanings, ensure_ascii=False))
    else:
        margin = " " * 4
        for name, meaning in meanings.items():
            print(f"{name}\n{fill(meaning, columns(), initial_indent=margin, subsequent_indent=margin)}")
    return 0
