"""Every operation, forward and backward: npformer's bodies and PyTorch in turns, and the bytes that must move."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import compare, machine, report
from benchmarks.cases import case
from benchmarks.options import Options, UsageError, listed, new_parser, run
from benchmarks.own.ops import NAMES
from benchmarks.turns import Budget, Child, Entry, contenders, take_turns
from npformer.backend.work import Work, work_of
from npformer.models.presets import PRESETS

TURN = 0.05  # seconds
BYTES = np.dtype("float32").itemsize
LEGEND = (
    "columns            median ms of npformer's bodies, and of PyTorch (backward: autograd's)",
    "times as fast      PyTorch's time over that of the first column, round by round: the median",
    "MB                 must move: inputs read once, outputs written once, added gradients both;",
    "                   backward also reads the inputs that its derivative needs; masks are not counted",
    "GB/s               MB over the time of the first column; what fits into the cache may stay there",
    "–                  nothing to do, or nothing to compare with",
    "dropout 0.1 wherever there is any; operations as a model of that size has them",
)
EXAMPLES = """examples:
  python -m benchmarks.ops
  python -m benchmarks.ops --op attention,cross_entropy --size small --threads 2
  python -m benchmarks.ops --against none --bodies numpy,plain --json"""


def main() -> int:
    """The command; see --help."""
    parser = new_parser("ops", "Measure every operation in float32.", EXAMPLES, "mid", "auto,numpy,plain", 1.0)
    parser.add_argument("--op", default=",".join(NAMES), help="operations (default: all)")
    parser.add_argument("--threads", type=int, default=1, help="threads for BLAS and PyTorch each (default: 1)")
    return run(parser, benchmark)


def benchmark(options: Options) -> int:
    """Measure all operations at all sizes, say what came of it. Returns the exit code."""
    names, threads = listed("--op", str(options.own["op"]), NAMES), int(str(options.own["threads"]))
    if threads < 1:
        raise UsageError(f"--threads: expected an integer >= 1, got {threads}")
    environment, removed = machine.contenders_environment(options.keep_environment)
    environment |= {f"{library}_NUM_THREADS": str(threads) for library in ("OPENBLAS", "OMP", "MKL")}
    about = machine.describe(removed, options.keep_environment) | {"threads": f"{threads} for each contender"}
    report.say("\n".join([report.head(about), "", *LEGEND]), options.json)
    results = []
    for size in options.sizes:
        with contenders(entries(options, size, threads), environment) as children:
            report.say(f"\n{report.wrapped(f'{size}: {PRESETS[size]}')}\n{_line(_titles(options))}", options.json)
            for name in names:
                for direction, work in zip(("forward", "backward"), work_at(name, size), strict=True):
                    report.progress(f"{size}, {name} {direction} …")
                    results.append(measure(options.budget, size, name, direction, work, children))
                    report.progress("")
                    report.say(_line(_cells(results[-1], children)), options.json)
    for line in compare.others(_each_contender(results)):
        report.say(line, options.json)
    if options.json:
        print(report.document("ops", about, options, results))
    return 0


def entries(options: Options, size: str, threads: int) -> list[Entry]:
    """npformer in all bodies asked for, and PyTorch."""
    common = {"size": size, "device": options.device, "threads": threads}
    found = [
        Entry(f"npformer-{bodies}", "benchmarks.own.ops:ops", {**common, "bodies": bodies},
              ("numba",) if bodies == "compiled" else ())
        for bodies in options.bodies
    ]  # fmt: skip
    if options.torch:
        found.append(Entry("torch", "benchmarks.peers.torch_ops:ops", common))
    return found


def work_at(name: str, size: str) -> tuple[Work, Work]:
    """What (forward, backward) has to do at the least."""
    given = case(name, PRESETS[size])
    y = np.zeros(()) if isinstance(given.dy, float) else given.dy  # like y in shape, which is all that counts
    return work_of(name, y, (*given.arrays, *given.options))


def measure(
    budget: Budget, size: str, name: str, direction: str, work: Work, children: Sequence[Child]
) -> dict[str, Any]:
    """All numbers of one row."""
    measured = take_turns(children, f"{name} {direction}", budget._replace(turn=TURN))
    rows = compare.rows(children, measured)
    moved = work.numbers * BYTES
    for row in rows:
        row["bytes_per_second"] = moved / row["median"]
    return {
        "size": size, "shape": dataclasses.asdict(PRESETS[size]), "op": name, "direction": direction,
        "bytes": moved, "flops": work.flops, "contenders": rows,
    }  # fmt: skip


def _each_contender(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Name and mean others_share of each contender: a single operation takes too short to tell."""
    shares: dict[str, list[float]] = {}
    for row in (row for result in results for row in result["contenders"]):
        shares.setdefault(row["name"], []).append(row["others_share"] or 0.0)
    return [{"name": name, "others_share": statistics.fmean(known)} for name, known in shares.items()]


def _titles(options: Options) -> list[str]:
    return ["", *options.bodies, *(["torch", "times as fast"] if options.torch else []), "MB", "GB/s"]


def _cells(result: dict[str, Any], children: Sequence[Child]) -> list[str]:
    rows = {row["name"]: row for row in result["contenders"]}
    first = rows[children[0].name]
    medians = [report.milliseconds(rows[child.name]["median"]) if child.name in rows else "–" for child in children]
    has_peer = any(child.name.startswith(compare.PEER) for child in children)
    ratio = (
        [f"{first['times_as_fast']['median']:.2f}" if result["bytes"] and first["times_as_fast"] else "–"]
        if has_peer
        else []
    )
    moved = [f"{result['bytes'] / 1e6:.1f}", f"{first['bytes_per_second'] / 1e9:.1f}"] if result["bytes"] else ["–"] * 2
    return [f"{result['op']} {result['direction']}", *medians, *ratio, *moved]


def _line(cells: Sequence[str]) -> str:
    """A row that is shown at once, before the others are known; hence of fixed widths."""
    return f"{cells[0]:<29}" + "".join(f"{cell:>{max(9, len(cell) + 1)}}" for cell in cells[1:])


if __name__ == "__main__":
    raise SystemExit(main())
