"""One training step on two processes of one thread each: npformer by MPI beside PyTorch's DDP by gloo, in turns.

Also npformer in one process of one thread, as usual and by slots: what slots cost, and what a second process brings.
All ranks of a contender make the step of one batch; PyTorch's have half of its rows each. Each rank has a core of its
own, if there are so many.
"""

import tempfile
from pathlib import Path

from benchmarks import compare, report
from benchmarks.options import UsageError, imports_of, new_parser, numbers, run
from benchmarks.own.model import save_weights
from benchmarks.train_step import SAME
from benchmarks.turns import Entry, contenders, take_turns
from npformer.cli.processes import starting
from npformer.models.presets import PRESETS

COUNT = 2
#: Name -> processes, slots, and whether they share the moments out.
OURS = {
    "alone": (1, 1, False), "alone, 8 slots": (1, 8, False), "2 processes": (COUNT, 8, False),
    "2 processes, 2 slots": (COUNT, COUNT, False), "2 processes, sharded": (COUNT, 8, True),
}  # fmt: skip
COLUMNS = ("", "median ms", "best ms", "times as fast", "exchange ms", "kB", "messages", "steps")
LEGEND = (
    "median, best ms    of all steps; a step is forward, loss, backward, the exchange, Adam, the loss read back",
    "times as fast      the faster PyTorch form's time over the row's, round by round: median, quartiles",
    "exchange ms        of a step, of the first process: sending, receiving, and waiting for the other",
    "kB, messages       of a step, that one process sends",
)
EXAMPLES = """examples:
  python -m benchmarks.processes
  python -m benchmarks.processes --size small --kernels numba --seconds 30
  python -m benchmarks.processes --against none --size tiny --seconds 5 --json"""


def main():
    """The command; see --help."""
    summary = "Measure one training step on two processes: npformer by MPI, PyTorch's DDP by gloo, in turns."
    parser = new_parser("processes", summary, EXAMPLES, "small,mid", "auto", 60.0)
    parser.add_argument("--dropout", default="0.1", help="rates of dropout (default: 0.1)")
    return run(parser, benchmark)


def benchmark(options):
    """Measure all sizes and report. Returns the exit code."""
    if options.device != "numpy":
        raise UsageError(f"--device: expected numpy, got {options.device}")
    starting(COUNT)
    (rate,) = numbers("--dropout", options.dropout, 0, 1)[:1]
    environment, about = report.opening(options, LEGEND)
    results = []
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            weights = save_weights(PRESETS[size], Path(folder)) if options.torch else ""
            with contenders(entries(options, size, rate, weights), environment) as children:
                results.append(measure(options, size, rate, children))
        report.say("\n" + describe(results[-1]), options.json)
    report.finish("processes", about, options, results)
    return 0 if all(result["holds"] for result in results) else 1


def entries(options, size, rate, weights):
    """npformer's ways with each requested kernel table, and PyTorch in its forms."""
    found = [
        Entry(f"npformer-{kernels}, {way}", "benchmarks.own.ranks:train",
              {"size": size, "dropout": rate, "kernels": kernels, "processes": processes, "slots": slots,
               "shared": shared}, imports_of(kernels))
        for kernels in options.kernels for way, (processes, slots, shared) in OURS.items()
    ]  # fmt: skip
    peer = {"size": size, "dropout": rate, "weights": weights, "processes": COUNT}
    forms = ("textbook", "fast") if options.torch else ()
    return found + [Entry(f"torch-{form}", f"benchmarks.peers.torch_ddp:{form}", peer) for form in forms]


def measure(options, size, rate, children):
    """All numbers of one table."""
    measured = take_turns(children, "step", options.budget)
    losses = [child.facts["loss"] for child in children]
    return {
        "size": size, "dropout": rate, "contenders": compare.rows(children, measured),
        "times_as_fast_as": compare.best_peer(measured), "losses": losses,
        "holds": max(losses) - min(losses) <= SAME * max(1.0, *losses),
    }  # fmt: skip


def describe(result):
    """One table, with its heading and its notes."""
    cells = [
        [row["name"], report.milliseconds(row["median"]), report.milliseconds(row["best"]),
         report.ratio(row["times_as_fast"]), *exchanged(row), f"{row['steps']} in {row['rounds']}"]
        for row in result["contenders"]
    ]  # fmt: skip
    same = "the same" if result["holds"] else "NOT THE SAME COMPUTATION"
    heading = report.wrapped(f"{result['size']}, dropout {result['dropout']:g}: {PRESETS[result['size']]}")
    notes = [report.wrapped(f"first losses without dropout: {same}"), *compare.others(result["contenders"])]
    return "\n".join([heading, report.table(COLUMNS, cells), *notes])


def exchanged(row):
    """Milliseconds of the first process's exchanges, kilobytes and messages of a step; dashes where none is counted."""
    first = row["exchanges"][0]
    if not first.get("messages"):
        return ["–"] * 3
    return [report.milliseconds(first["exchange_seconds"]), f"{first['bytes'] / 1e3:,.0f}", f"{first['messages']:g}"]


if __name__ == "__main__":
    raise SystemExit(main())
