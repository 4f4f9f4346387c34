"""One training step: npformer and PyTorch in turns, and the bound that the matrix products set."""

import dataclasses
import itertools
import tempfile
from pathlib import Path

from benchmarks import compare, on_gpu, report
from benchmarks.options import imports_of, installed, new_parser, numbers, run
from benchmarks.own.model import save_weights
from benchmarks.products import linear_flop, linears, step_flop
from benchmarks.turns import Entry, contenders, take_turns
from npformer.models.presets import PRESETS

FORMS = ("textbook", "fast")
SAME = 1e-5  # the largest relative difference between losses of the same computation, in float32
COLUMNS = ("", "median ms", "best ms", "times as fast", "of bound", "peak MB", "imports MB", "steps")
LEGEND = (
    "median, best ms    of all steps; a step is forward, loss, backward, Adam, the loss read back",
    "times as fast      the faster PyTorch form's time over the row's, round by round: median, quartiles",
    "of bound           time of the matrix products alone over the row's median",
    "peak, imports MB   peak resident memory beyond that after imports; memory after imports (libraries)",
    "steps              timed steps in rounds",
)
EXAMPLES = """examples:
  python -m benchmarks.train_step
  python -m benchmarks.train_step --size tiny,small --dropout 0.1 --kernels numba,numpy,plain
  python -m benchmarks.train_step --size base --dropout 0.1,0 --json > base.json
  python -m benchmarks.train_step --against none --size tiny --seconds 5
  python -m benchmarks.train_step --against none --size mid --dropout 0.1 --recompute"""


def main():
    """The command; see --help."""
    summary = "Measure one training step in float32: npformer and PyTorch in turns, and the bound by products."
    parser = new_parser("train_step", summary, EXAMPLES, "tiny,small,mid,base", "auto", 20.0)
    parser.add_argument("--dropout", default="0.1,0", help="rates of dropout (default: 0.1,0)")
    parser.add_argument(
        "--recompute", action="store_true", help="also with layers that recompute their forward in backward"
    )
    return run(parser, benchmark)


def benchmark(options):
    """Measure all sizes at all rates and report. Returns the exit code."""
    rates = numbers("--dropout", options.dropout, 0, 1)
    on_device = options.device == "cupy"
    environment, about = report.opening(options, on_gpu.LEGEND if on_device else LEGEND)
    roofline = on_gpu.measure_roofline(options, environment) if on_device else None
    if roofline:
        report.say("\n" + on_gpu.roofline_line(roofline), options.json)
    table_rows = []
    for result in results(options, rates, environment, roofline):
        table_rows.append(result)
        report.say("\n" + describe(result), options.json)
    report.finish("train_step", about, options, table_rows)
    return 0 if all(result["same"]["holds"] for result in table_rows) else 1


def results(options, rates, environment, roofline=None, seconds=None):
    """Measure each size at each rate, in each precision; seconds limits each of these."""
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            weights = save_weights(PRESETS[size], Path(folder)) if options.torch else ""
            for rate, precision in itertools.product(rates, options.precisions):
                report.progress(f"{size}, dropout {rate:g}, {precision} …")
                started = entries(options, size, rate, weights, precision)
                with contenders(started, environment, seconds) as children:
                    result = measure(options, size, rate, children, precision, roofline)
                report.progress("")
                left_out = {entry.name for entry in started} - {child.name for child in children}
                yield result | {"left_out": sorted(left_out)}


def entries(options, size, rate, weights, precision):
    """npformer with each requested kernel table, PyTorch in its forms; on a CPU also the products in every way."""
    if options.device == "cupy":
        return on_gpu.entries(options, size, rate, weights, precision)
    common = {"size": size, "dropout": rate, "device": options.device}
    ways = (False, True) if options.recompute else (False,)
    contenders = [
        Entry(f"npformer-{kernels}{'-recompute' * again}", "benchmarks.own.train:train",
              {**common, "kernels": kernels, "recompute": again}, imports_of(kernels))
        for kernels in options.kernels for again in ways
    ]  # fmt: skip
    for form in FORMS if options.torch else ():
        contenders.append(
            Entry(f"torch-{form}", f"benchmarks.peers.torch_train:{form}", {**common, "weights": weights})
        )
    products, one_thread = "benchmarks.own.products:products", {"OPENBLAS_NUM_THREADS": "1"}
    contenders.append(Entry("products", products, {"size": size, "split": False}))
    contenders.append(Entry("products-split", products, {"size": size, "split": True}, environment=one_thread))
    if kernels_multiply_by_intel():
        contenders.append(
            Entry("products-intel", products, {"size": size, "split": True, "library": "intel"}, ("numba",))
        )
    return contenders


def kernels_multiply_by_intel():
    """Whether compiled kernels use Intel's library here."""
    if not installed("numba"):
        return False
    from npformer.engine.numba.intel import intel

    return intel().library is not None


def measure(options, size, rate, children, precision, roofline):
    """All numbers of one table."""
    measured = take_turns(children, "step", options.budget)
    rows = compare.rows(children, measured)
    limit = None
    if roofline is None:
        limit = bound(size, take_turns(children, "products", options.budget._replace(seconds=1.0)))
        rows = [row | {"of_bound": limit["seconds"] / row["median"] if limit else None} for row in rows]
    else:
        named = {child.name: child for child in children}
        rows = [on_gpu.with_rates(row, named[row["name"]], size, precision, roofline) for row in rows]
    return {
        "size": size, "shape": dataclasses.asdict(PRESETS[size]), "dropout": rate, "precision": precision,
        "contenders": rows, "times_as_fast_as": compare.best_peer(measured), "bound": limit,
        "same": same(children, measured, rate, on_gpu.SAME[precision]),
    }  # fmt: skip


def describe(result):
    """One table, with its heading and its notes."""
    rows, size = result["contenders"], result["size"]
    lines = [
        report.wrapped(f"{size}, {result['precision']}, dropout {result['dropout']:g}: {PRESETS[size]}"),
        on_gpu.table(rows) if "flop_per_second" in rows[0] else _table(rows),
    ]
    if result["bound"]:
        limit = result["bound"]
        lines.append(
            f"bound by products: {limit['gflop']:,.2f} GFLOP at {limit['gflop_per_second']:.0f} GFLOP/s = "
            f"{report.milliseconds(limit['seconds'])} ms"
        )
    if result["left_out"]:
        lines.append(report.wrapped(f"left out for the reasons above: {', '.join(result['left_out'])}"))
    lines += [compare.threads(rows), *compare.others(rows)]
    same = result["same"]
    losses = ", ".join(f"{name} {loss:.6f}" for name, loss in same["losses"].items())
    verdict = "the same" if same["holds"] else "NOT THE SAME COMPUTATION"
    compared = f"{same['compared']} compared, largest difference {same['difference']:.0e}: {verdict}"
    return "\n".join([*lines, report.wrapped(f"first loss without dropout: {losses}; {compared}")])


def _table(rows):
    cells = [
        [row["name"], report.milliseconds(row["median"]), report.milliseconds(row["best"]),
         report.ratio(row["times_as_fast"]), report.share(row["of_bound"]),
         *compare.cells(row)]
        for row in rows
    ]  # fmt: skip
    return report.table(COLUMNS, cells)


def bound(size, products):
    """The time of the products of a step at the rate of the linear maps, each in its fastest way; None without any."""
    runs = [value for product in products.values() for value in product.values]
    if not runs:
        return None
    best = [min(seconds) for seconds in zip(*runs, strict=True)]  # three for each linear map
    counts = [linear.copies for linear in linears(PRESETS[size]) for _ in range(3)]
    rate = linear_flop(PRESETS[size]) / sum(count * seconds for count, seconds in zip(counts, best, strict=True))
    flop = step_flop(PRESETS[size])
    return {"gflop": flop / 1e9, "gflop_per_second": rate / 1e9, "seconds": flop / rate}


def same(children, measured, rate, tolerance=SAME):
    """Whether all compute the same: the loss before training and, without dropout, the losses of the first steps."""
    losses = {child.name: float(child.facts["loss"]) for child in children if child.name in measured}
    steps = 0 if rate else min(3, *(len(each.values) for each in measured.values()))
    curves = [[losses[name], *measured[name].values[:steps]] for name in losses]
    difference = max(max(column) - min(column) for column in zip(*curves, strict=True))
    return {
        "losses": losses,
        "compared": steps + 1,
        "difference": difference,
        "holds": difference <= tolerance * max(1.0, *losses.values()),
    }


if __name__ == "__main__":
    raise SystemExit(main())
