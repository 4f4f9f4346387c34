"""npformer certify: properties that a gradient check cannot see, and exact identities of gradients."""

from __future__ import annotations

import argparse
import json
from typing import Any

from npformer.backend import get_backend
from npformer.cli.common import add_device, add_kernels, new_parser
from npformer.errors import ConfigError
from npformer.proof import IDENTITIES, INVARIANTS, ClaimResults, catalogue, certify, prove
from npformer.proof.user_file import user_case
from npformer.seconds import now, since

EXAMPLES = """examples:
  npformer certify                       every operation, layer and small model
  npformer certify --only Transformer    the models alone
  npformer certify --model mine.py       a model of your own (see npformer gradcheck --help)
  npformer certify --list                the meaning of each invariant and identity

An invariant is a property that a gradient check cannot see: causality, padding, order, accumulation. An
identity is an exact equation between gradients, derived in npformer/proof/identities."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Add this command's parser."""
    parser = new_parser(commands, "certify", "Check wiring and exact identities of gradients.", EXAMPLES)
    parser.add_argument("--only", metavar="TEXT", default="", help="only targets whose name contains TEXT")
    parser.add_argument("--model", metavar="FILE.py[:NAME]", help="certify what NAME() (default build) in FILE returns")
    parser.add_argument("--list", action="store_true", help="list the invariants and identities, and stop")
    parser.add_argument("--full", action="store_true", help="also list claims that hold or do not apply")
    add_device(parser, default="numpy")
    add_kernels(parser, default="plain")
    return parser


def run(args: argparse.Namespace) -> int:
    """Exit 1 if any claim does not hold."""
    if args.list:
        return _list(args.json)
    cases = [user_case(args.model)] if args.model else catalogue(args.only)
    if not cases:
        raise ConfigError(f"--only: expected a part of a target's name, such as attention, got {args.only!r}")
    backend = get_backend(args.device, dtype="float64", kernels=args.kernels)
    start, found = now(), []
    for case in cases:
        for examine in (certify, prove):
            report = examine(case.build(backend), *case.inputs, name=case.name, device=backend.device, **case.options)
            found.append(report)
            if not args.json and (args.full or args.model or not report.ok):
                print(report, end="\n\n", flush=True)
    ok = all(report.ok for report in found)
    if args.json:
        print(json.dumps({"ok": ok, "backend": str(backend), "reports": [report.to_dict() for report in found]}))
    else:
        print(_summary(found, since(start)))
    return 0 if ok else 1


def _summary(found: list[ClaimResults], seconds: float) -> str:
    rows = [row for report in found for row in report.rows]
    holding = sum(row.holds for row in rows)
    failing = [f"{report.name}: {row.name}" for report in found for row in report.rows if row.fails]
    if failing:
        return f"{len(failing)} of {holding + len(failing)} claims do not hold ({seconds:.0f} s):\n  " + "\n  ".join(
            failing
        )
    targets = len({report.name for report in found})
    return f"all {holding} claims that apply to {targets} targets hold ({seconds:.0f} s)"


def _list(as_json: bool) -> int:
    meanings = {name: check.meaning for name, check in INVARIANTS.items()}
    meanings |= {name: identity.meaning for name, identity in IDENTITIES.items()}
    if as_json:
        print(json.dumps(meanings, ensure_ascii=False))
    else:
        print("\n".join(f"{name}\n    {meaning}" for name, meaning in meanings.items()))
    return 0
