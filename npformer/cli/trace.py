"""npformer trace: every number of one forward and one backward."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from npformer.cli.target import add_target, is_operation, setting_of
from npformer.errors import ConfigError
from npformer.io.output_files import OWN_JSON, OWN_PAGE, expect_place, write_file
from npformer.io.printable import visible
from npformer.io.terminal import folded, width_of
from npformer.see.page import trace_page
from npformer.see.page.bugs import BugTrace, bug_traces
from npformer.see.record.trace import LIMIT, Trace, trace

SUMMARY = "Record every number of a forward and a backward."
EXAMPLES = """examples:
  npformer trace layer_norm                          an operation on a small sample: each call, forward and backward
  npformer trace transformer --out trace.json        a whole Transformer of the smallest size, on a padded batch
  npformer trace runs/reverse-001 --text bot         a trained model, held to its own answer
  npformer trace runs/reverse-001 --text bot --answer tob --text to --answer ot --out trace.json
  npformer trace transformer --html page.html        a page to walk through in a browser, forward and backward
  npformer trace transformer --html page.html --bugs relu-no-gate,loss-by-batch
  npformer trace runs/language-001 --text "5. maj 1987" --answer da
  npformer trace mine.py --html page.html            what build() in mine.py returns: a layer, a model or a pair
  npformer trace softmax --json | jq '.calls[0].backward.lines'

The model runs once forward and once backward, in float64 with the plain kernels, whatever it was trained with. The
trace holds inputs, outputs and caches of every call, the gradients that came back, what was added to each parameter,
and the values after each source line of the operations. Without --answer a model is held to its own answer. The loss is
the cross-entropy of the answer, without dropout and without label smoothing.

docs/trace-format.md describes the JSON; in Python: npf.trace(model, …), also for layers and pairs of your own."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add = parser.add_argument
    add_target(parser)
    add("--out", metavar="FILE.json", type=Path, help="write the trace to this file")
    add("--html", metavar="FILE.html", type=Path, help="write a page for a browser to this file")
    add(
        "--bugs",
        metavar="IDS",
        help="bugs of the museum that the page can switch on, with commas between them, or usual: at most ten whose "
        "code runs (default: none, since each is a recording of its own)",
    )
    add("--no-lines", action="store_true", help="leave out the values after each source line")
    add("--limit", metavar="MB", type=float, default=LIMIT / 1e6,
                        help=f"the most megabytes of numbers, and of a page (default: {LIMIT / 1e6:.0f})")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print the tree of calls, where the page is instead of the tree, or the trace as JSON."""
    if args.limit <= 0:
        raise ConfigError(f"--limit: expected a number of megabytes above 0, got {args.limit}")
    if args.bugs is not None and args.html is None:
        raise ConfigError("--bugs: expected --html FILE.html with it, since bugs are shown on the page; add it")
    for path, option, mark in ((args.out, "--out", OWN_JSON), (args.html, "--html", OWN_PAGE)):
        if path is not None:
            expect_place(path, option, mark)
    record = _recorder(args)
    trace = record()
    messages = []
    if args.html is not None:
        page = trace_page(trace, bugs=_bugs(args.bugs, record, trace)).encode()
        if len(page) > args.limit * 1e6:
            raise ConfigError(
                f"--limit: expected a page of at most {args.limit:g} MB, got {len(page) / 1e6:.2f}; name fewer bugs, "
                "make the model, batch or text smaller, or raise it"
            )
        write_file(args.html, "--html", page)
        messages.append(f"the page is in {visible(args.html)} ({len(page) / 1e6:.2f} MB): open it in a browser")
    text = trace.to_json() if args.json or args.out is not None else ""
    if args.out is not None:
        write_file(args.out, "--out", text.encode())
        messages.append(f"the trace is in {visible(args.out)} ({len(text) / 1e6:.2f} MB)")
    tree = [] if args.html is not None else [trace.text(width_of(sys.stdout))]
    print(text if args.json else folded("\n".join([*tree, *messages]), sys.stdout))
    return 0


def _bugs(chosen: str | None, record: Callable[[], Trace], trace: Trace) -> list[BugTrace]:
    """The bugs for the page: those named, the usual ones, or none."""
    names = [name.strip() for name in (chosen or "none").split(",") if name != "none"]
    return bug_traces(record, trace, None if names == ["usual"] else names)


def _recorder(args: argparse.Namespace) -> Callable[[], Trace]:
    """What records the target, as often as it is called. Raises ConfigError for an unknown target."""
    options: dict[str, Any] = {"lines": not args.no_lines, "limit": int(args.limit * 1e6)}
    if is_operation(args):
        return partial(trace, args.target, **options)
    setting = setting_of(args)
    return partial(
        trace, setting.target, *setting.inputs, targets=setting.targets,
        **setting.shown, **setting.options, **options,
    )  # fmt: skip
