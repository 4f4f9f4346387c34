"""Measure one training step on two processes of one thread each: npformer by MPI, PyTorch's DDP by gloo, in turns.

Also npformer in one process of one thread, as usual and by slots: what slots cost, and what a second process brings.
All ranks of a contender make the step of one batch; PyTorch's have half of its rows each. Each rank has a core of its
own, if there are so many.

  python -m benchmarks.processes --size small --kernels numba --seconds 30
"""

import itertools
import tempfile
from pathlib import Path

from benchmarks import page_tables
from benchmarks.harness import Entry, contenders
from benchmarks.options import answered, imports_of, new_parser, numbers
from benchmarks.own.model import save_weights
from benchmarks.train_step import FORMS, measured
from npformer.cli.processes import starting
from npformer.models.presets import PRESETS

COUNT = 2
#: Name -> processes, slots, and whether they share the moments out.
OURS = {
    "alone": (1, 1, False), "alone, 8 slots": (1, 8, False), "2 processes": (COUNT, 8, False),
    "2 processes, 2 slots": (COUNT, COUNT, False), "2 processes, sharded": (COUNT, 8, True),
}  # fmt: skip
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL", "NUMBA")}


def main():
    """The command; see --help."""
    parser = new_parser("processes", __doc__, "small,mid", 60.0)
    parser.add_argument("--dropout", type=numbers(0, 1), default="0.1", help="rates of dropout (default: 0.1)")
    return answered(parser, results, page_tables.processes, lambda result: result["same"]["holds"])


def results(args, environment):
    """Measure each size at each rate."""
    for size, rate in itertools.product(args.size, args.dropout):
        with tempfile.TemporaryDirectory() as folder:
            weights = save_weights(PRESETS[size], Path(folder)) if args.torch else ""
            started = entries(args, size, rate, weights, f"{folder}/ranks")
            with contenders(started, environment) as children:
                yield measured(children, size, rate, "float32", args.budget)


def entries(args, size, rate, weights, meeting):
    """npformer's ways with each requested kernel table, and PyTorch in its forms."""
    common = {"size": size, "dropout": rate, "device": "numpy"}
    found = []
    for kernels, (way, (count, slots, shared)) in itertools.product(args.kernels, OURS.items()):
        options = {**common, "kernels": kernels, "slots": slots, "shared": shared, "alone": True}
        start = starting(count) if count > 1 else []
        where = ("benchmarks.own.train:train", options, imports_of(kernels), ONE_THREAD, False, count, start)
        found.append(Entry(f"npformer-{kernels}, {way}", *where))
    for form in FORMS if args.torch else ():
        options = {**common, "weights": weights, "meeting": f"{meeting}-{form}"}
        where = (f"benchmarks.peers.torch_train:{form}", options, (), ONE_THREAD, False, COUNT)
        found.append(Entry(f"torch-{form}", *where))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
