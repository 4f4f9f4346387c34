"""Every operation, forward and backward: npformer's kernels and PyTorch in turns, and the least bytes to move."""

import dataclasses
import itertools
import statistics

import numpy as np

from benchmarks import compare, report
from benchmarks.cases import case
from benchmarks.flops import work_of
from benchmarks.options import at_least_1, listed, new_parser, own_entries, run
from benchmarks.own.ops import NAMES
from benchmarks.turns import Entry, contenders, take_turns
from npformer.backend import get_backend
from npformer.models.presets import PRESETS

TURN = 0.05  # seconds
BYTES = np.dtype("float32").itemsize
LEGEND = (
    "columns            median ms of npformer's kernels and of PyTorch (backward: autograd)",
    "times as fast      PyTorch's time over the first column's, round by round: the median",
    "MB                 least to move: read inputs once, write outputs once, both for added gradients;",
    "                   backward also reads the inputs that its derivative needs; masks are not counted",
    "GB/s               MB over the time of the first column; small data may stay in the cache",
    "–                  nothing to do, or nothing to compare with",
    "dropout 0.1 in every operation with dropout; shapes as in a model of that size",
)
EXAMPLES = """examples:
  python -m benchmarks.ops
  python -m benchmarks.ops --op attention,cross_entropy --size small --threads 2
  python -m benchmarks.ops --against none --kernels numpy,plain --json"""


def main():
    """The command; see --help."""
    parser = new_parser("ops", "Measure every operation in float32.", EXAMPLES, "mid", "auto,numpy,plain", 1.0)
    parser.add_argument("--op", default=",".join(NAMES), help="operations (default: all)")
    parser.add_argument("--threads", type=at_least_1, default=1, help="threads of BLAS, and of PyTorch (default: 1)")
    return run(parser, benchmark)


def benchmark(options):
    """Measure all operations at all sizes and report. Returns the exit code."""
    names, threads = listed("--op", options.op, NAMES), options.threads
    environment, about = report.opening(options, LEGEND, threads=f"{threads} for each contender")
    environment |= {f"{library}_NUM_THREADS": str(threads) for library in ("OPENBLAS", "OMP", "MKL")}
    table_rows = []
    for table, rows in itertools.groupby(
        results(options, names, threads, environment), lambda result: (result["size"], result["precision"])
    ):
        measured = list(rows)
        title = report.wrapped(f"{table[0]}, {table[1]}: {PRESETS[table[0]]}")
        cells = [_cells(result, options) for result in measured]
        report.say(f"\n{title}\n{report.table(_titles(options), cells)}", options.json)
        table_rows += measured
    for line in compare.others(_each_contender(table_rows)):
        report.say(line, options.json)
    report.finish("ops", about, options, table_rows)
    return 0


def results(options, names, threads, environment, seconds=None):
    """Measure each operation in both directions; seconds limits one size in one precision."""
    for size, precision in itertools.product(options.sizes, options.precisions):
        with contenders(entries(options, size, threads, precision), environment, seconds) as children:
            for name in names:
                for direction, work in zip(("forward", "backward"), work_at(name, size), strict=True):
                    report.progress(f"{size}, {name} {direction} …")
                    result = measure(options.budget, size, name, direction, work, children)
                    report.progress("")
                    yield result | {"precision": precision}


def entries(options, size, threads, precision="float32"):
    """npformer with each requested kernel table, and PyTorch."""
    common = {"size": size, "device": options.device, "threads": threads, "precision": precision}
    contenders = own_entries(options.kernels, "benchmarks.own.ops:ops", common)
    if options.torch:
        contenders.append(Entry("torch", "benchmarks.peers.torch_ops:ops", common))
    return contenders


def work_at(name, size):
    """The least work of (forward, backward)."""
    sample = case(name, PRESETS[size])
    inputs = (*sample.arrays, *sample.options)
    y, _ = getattr(get_backend("numpy", kernels="numpy").ops, name).forward(*inputs)
    return work_of(name, y, inputs)


def measure(budget, size, name, direction, work, children):
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


def _each_contender(results):
    """Name and mean others_share of each contender: one operation is too short to measure the share."""
    shares = {}
    for row in (row for result in results for row in result["contenders"]):
        shares.setdefault(row["name"], []).append(row["others_share"] or 0.0)
    return [{"name": name, "others_share": statistics.fmean(known)} for name, known in shares.items()]


def _titles(options):
    return ["", *options.kernels, *(["torch", "times as fast"] if options.torch else []), "MB", "GB/s"]


def _cells(result, options):
    rows = {row["name"]: row for row in result["contenders"]}
    names = [*(f"npformer-{kernels}" for kernels in options.kernels), *([compare.PEER] if options.torch else [])]
    first = rows[names[0]]
    medians = [report.milliseconds(rows[name]["median"]) if name in rows else "–" for name in names]
    ratio = (
        [f"{first['times_as_fast']['median']:.2f}" if result["bytes"] and first["times_as_fast"] else "–"]
        if options.torch
        else []
    )
    moved = [f"{result['bytes'] / 1e6:.1f}", f"{first['bytes_per_second'] / 1e9:.1f}"] if result["bytes"] else ["–"] * 2
    return [f"{result['op']} {result['direction']}", *medians, *ratio, *moved]


if __name__ == "__main__":
    raise SystemExit(main())
