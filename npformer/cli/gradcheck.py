"""npformer gradcheck: check the gradient of every operation, layer and small model."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from npformer.backend import get_backend
from npformer.cli.common import add_device, new_parser
from npformer.errors import ConfigError
from npformer.proof import Report, catalogue
from npformer.proof.report import HEADER, line

EXAMPLES = """examples:
  npformer gradcheck                       everything, in under a minute
  npformer gradcheck --only attention      what has attention in its name
  npformer gradcheck --json | jq '.checks[] | select(.ok | not)'

error is max|analytic − numeric| / max|numeric| of a tensor, at worst the element (or, for models, the
random direction) named. numeric is the complex step; central differences are a second witness."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add this command's parser."""
    parser = new_parser(commands, "gradcheck", "Check every gradient against two numerical witnesses.", EXAMPLES)
    parser.add_argument("--only", metavar="TEXT", default="", help="the checks whose name contains TEXT")
    parser.add_argument("--full", action="store_true", help="list every tensor of the models, not the worst alone")
    add_device(parser, default="numpy")
    return parser


def run(args: argparse.Namespace) -> int:
    """Exit 1 if any gradient is not right."""
    cases = catalogue(args.only)
    if not cases:
        raise ConfigError(f"--only: expected a part of a check's name, such as attention, got {args.only!r}")
    backend = get_backend(args.device, dtype="float64")
    start = time.perf_counter()
    reports = []
    if not args.json:
        print(f"gradients with {backend}, against complex step and central differences")
        print(line(HEADER))
    for case in cases:
        report = case.check(backend)
        reports.append(report)
        if not args.json:
            print(_section(report, fold=case.group == "model" and not args.full), flush=True)
    ok = all(report.ok for report in reports)
    if args.json:
        print(json.dumps({"ok": ok, "backend": str(backend), "checks": [report.to_dict() for report in reports]}))
    else:
        print(_summary(reports, time.perf_counter() - start))
    return 0 if ok else 1


def _section(report: Report, fold: bool) -> str:
    """A check's rows below its name; folded, its failures or else its worst row."""
    rows = [row for row in report.rows if not row.ok] or [report.worst] if fold else list(report.rows)
    note = f"  (worst of {len(report.rows)} tensors)" if fold and report.ok else ""
    return "\n".join([f"{report.name}{note}", *("  " + line(row.cells(), indent=2) for row in rows)])


def _summary(reports: list[Report], seconds: float) -> str:
    tensors = sum(len(report.rows) for report in reports)
    wrong = [f"{report.name}: {row.tensor}" for report in reports for row in report.rows if not row.ok]
    worst = max((row.scaled_error for report in reports for row in report.rows), default=0.0)
    if wrong:
        return f"{len(wrong)} of {tensors} gradients are not right ({seconds:.0f} s):\n  " + "\n  ".join(wrong)
    return f"all {tensors} gradients of {len(reports)} checks are right; largest error {worst:.1e} ({seconds:.0f} s)"
