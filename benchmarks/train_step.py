"""Measure one training step: npformer and PyTorch in turns, and the bound that the matrix products set.

A step is forward, loss, backward, Adam, and the loss read back. The bound is the time of the step's matrix products
alone, each in the fastest way that was found in the same run.

  python -m benchmarks.train_step --size tiny,small --dropout 0.1 --kernels numba,numpy,plain
  python -m benchmarks.train_step --against none --size tiny --seconds 5
"""

import itertools
import tempfile
from pathlib import Path

from benchmarks import harness, page_tables
from benchmarks.harness import Entry, contenders, take_turns
from benchmarks.options import answered, new_parser, numbers, own_entries
from benchmarks.own.model import save_weights
from benchmarks.products import linear_flop, linears, step_flop
from npformer.models.presets import PRESETS

FORMS = ("textbook", "fast")
#: The largest relative difference between losses of the same computation, by precision: two roundings to 11 bits.
SAME = {"float32": 1e-5, "tf32": 1e-3}


def main():
    """The command; see --help."""
    parser = new_parser("train_step", __doc__, "tiny,small,mid,base", 20.0)
    parser.add_argument("--dropout", type=numbers(0, 1), default="0.1,0", help="rates of dropout (default: 0.1,0)")
    return answered(parser, results, page_tables.training, lambda result: result["same"]["holds"])


def results(args, environment):
    """Measure each size at each rate, beside the bound."""
    for children, result in of_each(args, environment, entries):
        limit = bound(result["size"], take_turns(children, "products", args.budget._replace(seconds=1.0)))
        for row in result["contenders"]:
            row["of_bound"] = limit["seconds"] / row["median"]
        yield result | {"bound": limit}


def of_each(args, environment, entries):
    """(contenders, result) of each size at each rate."""
    for size, rate in itertools.product(args.size, args.dropout):
        common = {"size": size, "dropout": rate, "device": "numpy"}
        with tempfile.TemporaryDirectory() as folder:
            weights = save_weights(PRESETS[size], Path(folder)) if args.torch else ""
            with contenders(entries(args, common, common | {"weights": weights}), environment) as children:
                yield children, measured(children, size, rate, "float32", args.budget)


def entries(args, common, of_peers):
    """npformer with each requested kernel table, and PyTorch in two forms."""
    forms = FORMS if args.torch else ()
    peers = [Entry(f"torch-{form}", f"benchmarks.peers.torch_train:{form}", of_peers) for form in forms]
    return own_entries(args.kernels, "benchmarks.own.train:train", common) + peers


def measured(children, size, rate, precision, budget):
    """A training step of contenders that are ready."""
    turns = take_turns(children, "step", budget)
    return {
        "size": size, "shape": vars(PRESETS[size]), "dropout": rate, "precision": precision,
        "contenders": harness.rows(children, turns), "times_as_fast_as": harness.best_peer(turns),
        "same": same(children, turns, rate, SAME[precision]),
    }  # fmt: skip


def bound(size, products):
    """The time of the products of a step at the rate of the linear maps, each in its fastest way."""
    runs = [value for product in products.values() for value in product.values]
    best = [min(seconds) for seconds in zip(*runs, strict=True)]  # three for each linear map
    counts = [linear.copies for linear in linears(PRESETS[size]) for _ in range(3)]
    rate = linear_flop(PRESETS[size]) / sum(count * seconds for count, seconds in zip(counts, best, strict=True))
    flop = step_flop(PRESETS[size])
    return {"gflop": flop / 1e9, "gflop_per_second": rate / 1e9, "seconds": flop / rate}


def same(children, turns, rate, tolerance):
    """Whether all compute the same: the loss before training and, without dropout, the losses of the first steps."""
    losses = {child.name: float(child.facts["loss"]) for child in children if child.name in turns}
    steps = 0 if rate else min(3, *(len(each.values) for each in turns.values()))
    curves = [[losses[name], *turns[name].values[:steps]] for name in losses]
    difference = max(max(column) - min(column) for column in zip(*curves, strict=True))
    holds = difference <= tolerance * max(1.0, *losses.values())
    return {"losses": losses, "compared": steps + 1, "difference": difference, "holds": holds}


if __name__ == "__main__":
    raise SystemExit(main())
