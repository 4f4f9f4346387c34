"""npformer report: one run or several as one page for a browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from npformer.cli.common import expect_at_least_1, finished
from npformer.errors import ConfigError, NpformerError
from npformer.io.output_files import OWN_PAGE, expect_place
from npformer.io.printable import visible
from npformer.io.terminal import folded, say_error
from npformer.run import RunDirectory
from npformer.run.summary import RunSummary, summary_of
from npformer.see.page.report import PAGE, write_report

SUMMARY = "Write a page about one run or several."
EXAMPLES = """examples:
  npformer report runs/reverse-001                     writes runs/reverse-001/report.html
  npformer report runs/reverse-001 runs/reverse-002    both side by side, in report.html
  npformer report runs/* --out all.html --examples 200

The page is one file that opens from disk, asks for nothing and runs no script. npformer train writes the same at its
end."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        type=Path,
        help="the folder of a run of npformer train; several stand beside each other",
    )
    parser.add_argument(
        "--out",
        metavar="FILE.html",
        type=Path,
        help="where to write (default: report.html in the run's folder; of several runs, in this folder)",
    )
    parser.add_argument(
        "--examples",
        metavar="N",
        type=int,
        help="held-out examples to decode (default: as many as the run's last evaluation)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the page of all runs that can be read; returns 1 if one cannot. Raises its error if none can."""
    expect_at_least_1(args, "examples")
    for i, path in enumerate(args.runs):
        if path.resolve() in [other.resolve() for other in args.runs[:i]]:
            raise ConfigError(f"report: expected each run once, got {path} twice")
    place = args.out or (RunDirectory.open(args.runs[0]).path / PAGE if len(args.runs) == 1 else Path(PAGE))
    option = "--out" if args.out else "report"
    expect_place(place, option, OWN_PAGE)
    told: list[RunSummary] = []
    left_out: list[str] = []
    for path in args.runs:
        try:
            told.append(summary_of(RunDirectory.open(path), args.examples))
        except NpformerError as error:
            if len(left_out) + 1 == len(args.runs):
                raise
            left_out.append(str(path))
            say_error(f"{path} is left out: {error}")
    page = write_report(told, place, option)
    runs = {"runs": [str(one.run.path) for one in told], "left_out": left_out}
    message = f"the report is in {visible(place)} ({page / 1e6:.2f} MB): open it in a browser"
    return finished(args, {"report": str(place), "bytes": page} | runs, folded(message, sys.stdout), not left_out)
