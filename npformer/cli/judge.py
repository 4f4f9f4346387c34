"""npformer judge: a verdict on each of many kernels, against a reference."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

from npformer.check.kernels.files import KernelTask, tasks_of
from npformer.check.kernels.judging import VERDICTS, judged
from npformer.check.report import NOT_TRIED, RIGHT
from npformer.check.rounding.formats import FORMATS
from npformer.cli.common import finished, tell
from npformer.errors import ConfigError, DataError
from npformer.io.child_process import Limits
from npformer.io.output_files import OWN_JSON, expect_place, write_file
from npformer.io.printable import visible
from npformer.io.progress_bar import watched
from npformer.io.terminal import columns, counted

FORMAT, VERSION = "npformer-judge", 1
SUMMARY = "Judge backward kernels that others wrote, each in a process of its own."
EXAMPLES = """examples:
  npformer judge softmax.py --against softmax_reference.py
  npformer judge kernels --against references        folders, see docs/judge.md
  npformer judge kernels --against references --precision bfloat16
  npformer judge kernels --against references --out verdicts.json --resume
  npformer judge kernels --against references --json | jq '.kernels[] | select(.verdict == "wrong")'

A kernel's file defines forward(*inputs) -> (y, cache) and backward(dy, cache) -> gradients, or functions that write
into out. A reference defines the same in NumPy, and inputs(rng). docs/judge.md has the rules for both, with examples.

A kernel is right, wrong, refused (it does not load, fails, hangs, crashes, or returns other shapes), or the check
cannot tell. Its gradients are compared with the reference's as npformer gradcheck does, in every regime, and at other
sizes. It is wrong, too, if it ignores dy, returns earlier results, leaves memory unwritten, writes elsewhere, or
measures slopes by calling its forward.

The process is no sandbox: judge a stranger's file in a container.

exit code: 0 all right, 1 some are not, 2 nothing can be judged"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add("kernels", metavar="KERNEL.py|FOLDER", nargs="+", help="what is judged")
    add("--against", metavar="REFERENCE.py|FOLDER", required=True,
                        help="what is right; in a folder, softmax.py for softmax--rows.py")  # fmt: skip
    add("--precision", choices=tuple(FORMATS), metavar="NAME", default="float32",
                        help=f"{', '.join(FORMATS)}: of kernels whose name does not end in one (float32)")  # fmt: skip
    add("--time-limit", type=float, default=60.0, metavar="S", help="seconds for each verdict (60)")
    add("--memory-limit", type=int, default=2048, metavar="MB", help="memory of each kernel (2048)")
    add("--out", type=Path, metavar="FILE", help="write the verdicts as JSON, after each kernel")
    add("--resume", action="store_true", help="keep the verdicts that FILE has of the same files")


def run(args: argparse.Namespace) -> int:
    """Exit 1 unless every kernel is right."""
    if not 1 <= args.time_limit <= 86400 or args.memory_limit < 1:
        raise ConfigError("judge: expected 1 <= --time-limit <= 86400 and --memory-limit >= 1")
    if args.resume and args.out is None:
        raise ConfigError("--resume: expected --out FILE beside it, with the verdicts of the run that goes on")
    tasks = tasks_of(args.kernels, args.against, args.precision)
    if args.out is not None:
        expect_place(args.out, "--out", OWN_JSON)
    known = _read(args.out) if args.resume and args.out.exists() else {}
    rows: list[dict[str, Any]] = []
    limits = Limits(args.time_limit, args.memory_limit * 1024**2)
    for task in watched(tasks, "kernels", name=lambda task: task.path.name):
        rows.append(known.get(task.key) or judged(task, limits))
        if not args.json:
            tell(_line(rows[-1], task))
        if args.out is not None:
            write_file(args.out, "--out", json.dumps(_document(rows), separators=(",", ":")).encode())
    result = _document(rows)
    return finished(args, result, _table(rows) if len(rows) > 1 else "", result["ok"])


def _document(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The whole result: with --out a file that is whole after each kernel, so that an interrupted run goes on."""
    ok = all(row["verdict"] == RIGHT for row in rows)
    return {"format": FORMAT, "version": VERSION, "ok": ok, "kernels": rows}


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """The verdicts of an earlier run by their keys. Raises DataError for another file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if (found["format"], found["version"]) != (FORMAT, VERSION):
            raise ValueError
        return {row["key"]: row for row in found["kernels"]}
    except (ValueError, KeyError, TypeError) as error:
        way = "leave --resume out to begin again"
        raise DataError(f"--resume: expected verdicts of version {VERSION} in {path}, got other JSON; {way}") from error


def _line(row: dict[str, Any], task: KernelTask) -> str:
    """A kernel's verdict, and its causes below it."""
    lines = [f"{row['verdict']:<12} {visible(task.path)}  ({row['precision']}, {row['seconds']:.1f} s)"]
    margin = " " * 13
    for cause in row["causes"]:
        lines += textwrap.wrap(visible(cause), columns(), initial_indent=margin, subsequent_indent=margin + "  ")
    return "\n".join(lines)


def _table(rows: list[dict[str, Any]]) -> str:
    """Each kernel's verdict, with its right gradients and regimes of those that were tried; then how many of each."""
    lines = ["", f"{'verdict':<12} {'gradients':>9} {'regimes':>9}  kernel"]
    for row in rows:
        tried = [
            [one["verdict"] for one in row[kind] if one["verdict"] != NOT_TRIED] for kind in ("tensors", "regimes")
        ]
        counts = [f"{found.count(RIGHT)} of {len(found)}" if found else "–" for found in tried]
        lines.append(f"{row['verdict']:<12} {counts[0]:>9} {counts[1]:>9}  {visible(row['kernel'])}")
    number = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    told = ", ".join(f"{count} {verdict}" for verdict, count in number.items() if count)
    return "\n".join([*lines, "", f"{counted(len(rows), 'kernel')}: {told}"])
