"""Measure one training step on two processes of one thread each: npformer by MPI, PyTorch's DDP by gloo, in turns.

Also npformer in one process of one thread, as usual and by slots: what slots cost, and what a second process brings.
All ranks of a contender make the step of one batch; PyTorch's have half of its rows each. Each rank has a core of its
own, if there are so many.

  python -m benchmarks.processes --size small --kernels numba --seconds 30
"""

import itertools

from benchmarks import page_tables
from benchmarks.harness import Entry
from benchmarks.options import answered, imports_of, new_parser, numbers
from benchmarks.train_step import FORMS, of_each
from npformer.run.processes import starting

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
    return (result for _, result in of_each(args, environment, entries))


def entries(args, common, of_peers):
    """npformer's ways with each requested kernel table, and PyTorch in its forms."""
    found = []
    for kernels, (way, (count, slots, shared)) in itertools.product(args.kernels, OURS.items()):
        options = {**common, "kernels": kernels, "slots": slots, "shared": shared, "alone": True}
        start = starting(count) if count > 1 else []
        where = ("benchmarks.own.train:train", options, imports_of(kernels), ONE_THREAD, False, count, start)
        found.append(Entry(f"npformer-{kernels}, {way}", *where))
    for form in FORMS if args.torch else ():
        options = of_peers | {"meeting": f"{of_peers['weights']}-{form}"}
        where = (f"benchmarks.peers.torch_train:{form}", options, (), ONE_THREAD, False, COUNT)
        found.append(Entry(f"torch-{form}", *where))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
