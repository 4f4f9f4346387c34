"""How the cost of a training step grows with length, batch, width and depth, compared with theory.

The cost as a function of one dimension, the others fixed, is no pure power: the T of the linear maps and
the T² of attention add up. So the expected exponent is fitted in the same way as the measured one, to the counted
cost of the same points. Time is counted in operations of matrix products (``products.step_flop``). Memory is
counted in what a step has to keep, in float32, for threads that share a batch:

    parameters      (4 + threads − 1)·P      values, gradients, Adam's two moments; gradients of each further thread
    encoder layer   B·T·(8C + F + H·T)       q, k, v, heads; x̂ and y of two norms; the hidden F; attention weights
    decoder layer   B·T·(14C + F + 2H·T)     one attention and one norm more
    both ends       B·T·(2C + 2V)            embedded source and target; logits and their gradient

Operations outside of matrix products are not counted. Softmax and dropout of T² attention weights take about as
long as the products with them, so time may grow with T faster than the products do, up to T².

Layers that recompute keep only their input, C; the activations of one layer at a time exist in full.
"""

import dataclasses
import math
from statistics import linear_regression
from typing import NamedTuple

from benchmarks import compare, report
from benchmarks.options import listed, new_parser_without_peer, own_entries, run
from benchmarks.products import linears, step_flop
from benchmarks.turns import Budget, contenders, take_turns
from npformer.models.presets import Preset
from npformer.percent import percent

DROPOUT = 0.1
BASE = Preset(vocab_size=1000, d_model=256, num_heads=4, num_layers=2, d_ff=1024, length=128, batch=8)
SWEEPS = {
    "T": (64, 128, 256, 512, 1024, 2048),
    "batch": (1, 2, 4, 8, 16, 32, 64),
    "width": (64, 128, 256, 512, 1024),
    "depth": (1, 2, 3, 6, 12),
}
QUICK_BASE = Preset(vocab_size=20, d_model=64, num_heads=4, num_layers=2, d_ff=256, length=32, batch=16)
QUICK_SWEEPS = {"T": (32, 128), "batch": (16, 32), "width": (64, 128), "depth": (2, 4)}
NEAR = 0.15  # exponents that differ by less count as equal: the cost of a doubling differs by less than 11 %
BYTES = 4  # of a float32
QUANTITIES = {"T": "T", "batch": "batch", "width": "d_model", "depth": "layers"}
LIMITS = {"T": 2, "batch": 1, "width": 2, "depth": 1}  # exponents of the terms that grow fastest
BUDGET, QUICK_BUDGET = Budget(rounds=3, turn=0.3, warm_up=2), Budget(rounds=3, turn=0.02, warm_up=1)
PAGE = 4096  # bytes; smaller growth of memory cannot be measured
COLUMNS = ("median ms", "best ms", "GFLOP", "GFLOP/s", "peak MB", "kept MB", "steps")
LEGEND = (
    "median, best ms    of all steps; a step is forward, loss, backward, Adam, the loss read back",
    "GFLOP, GFLOP/s     operations in a step's matrix products; the same over the median",
    "peak MB            peak resident memory of the host beyond that after a step of a tiny model",
    "                   (libraries, compiled code)",
    "kept MB            what a step has to keep: parameters, gradients, moments, caches for backward",
    "grows as           exponent fitted by least squares over the upper half of the values, and the",
    "                   expected one, fitted to GFLOP or kept MB; T² attention weights take more time",
    "                   than their products alone, so time may grow up to T^2",
)
EXAMPLES = """examples:
  python -m benchmarks.scaling
  python -m benchmarks.scaling --sweep T,depth --recompute
  python -m benchmarks.scaling --kernels numba,plain --json > scaling.json"""


def main():
    """The command; see --help."""
    summary = "Measure one training step of npformer in float32 against T, batch, width and depth, and fit exponents."
    parser = new_parser_without_peer("scaling", summary, EXAMPLES, "auto")
    known = ",".join(SWEEPS)
    parser.add_argument("--sweep", default=known, help=f"what to vary (default: {known})")
    parser.add_argument("--recompute", action="store_true", help="layers compute their forward again in backward")
    parser.add_argument("--quick", action="store_true", help="small sizes, only to see whether everything works")
    return run(parser, benchmark)


def benchmark(options):
    """Measure all sweeps with all kernels and report. Returns the exit code."""
    sweeps = listed("--sweep", options.sweep, SWEEPS)
    base, values = (QUICK_BASE, QUICK_SWEEPS) if options.quick else (BASE, SWEEPS)
    again = "; layers compute their forward again in backward" if options.recompute else ""
    what = report.wrapped(f"base: {base}, dropout {DROPOUT:g}{again}; width: d_ff is 4·d_model", " " * 6)
    environment, about = report.opening(options, (*LEGEND, "", what))
    results = []
    for kernels in options.kernels:
        found = {}
        for sweep in sweeps:
            for value in values[sweep]:
                report.progress(f"{kernels}, {QUANTITIES[sweep]} {value} …")
                size = varied(base, sweep, value)
                found[size] = found.get(size) or measure(options, kernels, size, environment)
            report.progress("")
            points = [{"value": value, **found[varied(base, sweep, value)]} for value in values[sweep]]
            results.append(summed_up(sweep, kernels, points))
            report.say("\n" + describe(results[-1]), options.json)
    report.finish("scaling", about, options, results)
    return 0


def varied(base, sweep, value):
    """base with one of its dimensions changed."""
    if sweep == "width":
        return dataclasses.replace(base, d_model=value, d_ff=4 * value)
    return dataclasses.replace(base, **{{"T": "length", "batch": "batch", "depth": "num_layers"}[sweep]: value})


def measure(options, kernels, size: Preset, environment):
    """All numbers of one size, measured in a new process; times in seconds."""
    shape, recompute = dataclasses.asdict(size), options.recompute
    given = {"size": shape, "dropout": DROPOUT, "device": options.device, "recompute": recompute}
    with contenders(own_entries([kernels], "benchmarks.own.train:train", given), environment) as children:
        (row,) = compare.rows(children, take_turns(children, "step", QUICK_BUDGET if options.quick else BUDGET))
        facts = children[0].facts
    kept = kept_bytes(size, min(int(facts["threads"]), size.batch), recompute)
    model_bytes = max(PAGE, row["imports_bytes"] + row["peak_bytes"] - int(facts["prepared_bytes"]))
    return {**row, "shape": shape, "flop": step_flop(size, recompute), "kept_bytes": kept, "model_bytes": model_bytes}


def summed_up(sweep, kernels, points):
    """One sweep: its points, and the growth of time and memory over them."""

    def grows(measured, counted):
        values, costs, counts = ([float(point[name]) for point in points] for name in ("value", measured, counted))
        found = growth(values, costs, counts, LIMITS[sweep])
        return {**found._asdict(), "verdict": found.verdict}

    time, memory = grows("median", "flop"), grows("model_bytes", "kept_bytes")
    return {"sweep": sweep, "kernels": kernels, "points": points, "time": time, "memory": memory}


def describe(result):
    """One table, and a line each on time and memory."""
    quantity = QUANTITIES[result["sweep"]]
    rows = [
        [str(point["value"]), report.milliseconds(point["median"]), report.milliseconds(point["best"]),
         f"{point['flop'] / 1e9:,.2f}", f"{point['flop'] / 1e9 / point['median']:,.0f}",
         report.megabytes(point["model_bytes"]), report.megabytes(point["kept_bytes"]),
         f"{point['steps']} in {point['rounds']}"]
        for point in result["points"]
    ]  # fmt: skip
    lines = [f"{result['sweep']}, {result['kernels']} kernels", report.table((quantity, *COLUMNS), rows)]
    for cost, count in (("time", "GFLOP"), ("memory", "kept MB")):
        found = result[cost]
        lines.append(
            f"{cost} grows as {quantity}^{found['measured']:.2f}, {count} as {quantity}^{found['counted']:.2f}: "
            f"{found['verdict']}"
        )
    return "\n".join([*lines, *disturbed(result["points"])])


def disturbed(points):
    """A warning if other processes used so much that the times cannot be trusted; else nothing."""
    worst = max(points, key=lambda point: float(point["others_share"] or 0.0))
    share = worst["others_share"] or 0.0
    if share < compare.TOO_BUSY:
        return []
    return [
        f"DISTURBED: at {worst['value']} other processes used {percent(share, 0)} of the cores: measure again later"
    ]


class Growth(NamedTuple):
    """The measured exponent of a cost, and the expected one."""

    measured: float
    counted: float
    limit: float  # exponent of the fastest-growing term

    @property
    def verdict(self):
        """The verdict in words; upper case for a cost that grows faster than its fastest-growing term."""
        if self.measured > max(self.counted, self.limit) + NEAR:
            return "FASTER THAN IT SHOULD"
        if self.measured > self.counted + NEAR:
            return "as it should; the fastest-growing term costs more"
        return "as it should" if self.measured >= self.counted - NEAR else "more slowly than counted"


def growth(values, measured, counted, limit):
    """The growth of a cost over the upper half of rising values, where constant terms weigh least."""
    upper = slice((len(values) - 1) // 2, None)
    return Growth(exponent(values[upper], measured[upper]), exponent(values[upper], counted[upper]), limit)


def exponent(x, y):
    """The slope of log y over log x, by least squares: p if y = a·xᵖ. All are > 0, x at least two values."""
    return linear_regression([math.log(each) for each in x], [math.log(each) for each in y]).slope


def parameters(size: Preset):
    """P, the number of parameters of the model."""
    maps = sum(linear.copies * (linear.c_in + 1) * linear.c_out for linear in linears(size))
    norms = 5 * size.num_layers * 2 * size.d_model
    return maps + norms + 2 * size.vocab_size * size.d_model


def kept_bytes(size: Preset, threads, recompute=False):
    """Bytes that a training step has to keep; see the module's docstring."""
    c, f, weights = size.d_model, size.d_ff, size.num_heads * size.length
    encoder_layer, decoder_layer = 8 * c + f + weights, 14 * c + f + 2 * weights
    layers = size.num_layers * (encoder_layer + decoder_layer)
    if recompute:
        layers = 2 * size.num_layers * c + decoder_layer
    tokens = size.batch * size.length
    return BYTES * ((3 + threads) * parameters(size) + tokens * (layers + 2 * c + 2 * size.vocab_size))


if __name__ == "__main__":
    raise SystemExit(main())
