"""What differs on a GPU: more contenders, precisions, rates compared with measured ceilings, kernels, memory."""

from benchmarks import report
from benchmarks.products import step_flop
from benchmarks.turns import Entry, contenders
from npformer.models.presets import PRESETS

FORMS = {
    "textbook": "textbook", "fast": "fast", "graph": "graph", "compile": "compiled",
    "reduce-overhead": "reduce_overhead",
}  # fmt: skip
OPTIONAL = ("graph", "compile", "reduce-overhead")  # may be missing: without a compiler, or if a capture is refused
LAUNCHES = {"": "one", "-eager": "none"}
SAME = {"float32": 1e-5, "tf32": 1e-3}  # two roundings to 11 bits; see train_step.SAME
COLUMNS = ("", "ms", "best ms", "as fast", "TFLOP/s", "GB/s", "ceiling", "kernels", "GPU MB", "ready s")
LEGEND = (
    "npformer           one launch of a captured graph per step; -eager: nothing captured.",
    "torch              eager in two forms, -graph: a whole step as one CUDA graph, torch.compile in two",
    "                   modes",
    "ms, best ms        median and best of a step (forward, loss, backward, Adam); ten are queued before",
    "                   the host waits and reads their losses; precision is that of products",
    "as fast            the fastest PyTorch's time over the row's, round by round: the median",
    "TFLOP/s, GB/s      operations of the products, least bytes to move, each over the median",
    "ceiling            time of the products or of the bytes at the ceilings, whichever is longer,",
    "                   over the median",
    "kernels            launched in a step; –: unknown",
    "GPU MB             peak GPU memory held by the allocator; without CUDA's own",
    "ready s            until the first twenty steps were done: torch.compile (all contenders of a table",
    "                   compile at the same time), warm-up, capture",
)


#: A roofline: {"products": {precision: flop per second}, "memory": bytes per second, "bytes": {size: those of a step}}


def entries(options, size, rate, weights, precision):
    """npformer with all kernels and ways to launch, PyTorch in all forms."""
    common = {"size": size, "dropout": rate, "device": options.device, "precision": precision}
    contenders = [
        Entry(
            f"npformer-{kernels}{name}", "benchmarks.own.train:train", {**common, "kernels": kernels, "launch": launch}
        )
        for kernels in options.kernels
        for name, launch in LAUNCHES.items()
    ]
    for name, factory in FORMS.items() if options.torch else ():
        where = f"benchmarks.peers.torch_train:{factory}"
        contenders.append(Entry(f"torch-{name}", where, {**common, "weights": weights}, optional=name in OPTIONAL))
    return contenders


def measure_roofline(options, environment, seconds=None):
    """The best rates that either side measures, and the bytes of a step of each size, within so many seconds."""
    options_for_child = {"device": options.device, "precisions": options.precisions}
    started = [
        Entry("npformer-ceilings", "benchmarks.own.once:ceilings", {**options_for_child, "kernels": options.kernels[0]})
    ]
    if options.torch:
        started.append(Entry("torch-ceilings", "benchmarks.peers.torch_device:ceilings", options_for_child))
    with contenders(started, environment, seconds) as children:
        seen = [child.run("ceilings", 1)["values"][0] for child in children]  # one at a time
        moved = {size: children[0].run(f"bytes {size}", 1)["values"][0] for size in options.sizes}
    return best_of(seen) | {"bytes": moved}


def best_of(seen):
    """The highest of each rate."""
    products = {name: max(each["products"][name] for each in seen) for name in seen[0]["products"]}
    return {"products": products, "memory": max(each["memory"] for each in seen)}


def with_rates(row, child, size, precision, roofline):
    """The row of a contender, with its rates, its share of the ceilings, and its time until ready."""
    flop, moved = step_flop(PRESETS[size]), roofline["bytes"][size]
    bound = max(flop / roofline["products"][precision], moved / roofline["memory"])
    return row | {
        "flop_per_second": flop / row["median"],
        "bytes_per_second": moved / row["median"],
        "of_bound": bound / row["median"],
        "ready_seconds": child.facts.get("ready_seconds"),
        "kernels": row.get("kernels"),
        "device_bytes": row.get("device_bytes"),
    }


def table(rows):
    """The rows of one precision, one size; with short numbers, since this table has many columns."""
    return report.table(COLUMNS, map(_cells, rows))


def _cells(row):
    """A contender's cells; a dash for what is unknown."""

    def known(name, unit=1.0):
        value = row.get(name)
        return report.digits(None if value is None else value / unit)

    as_fast = "–" if row["times_as_fast"] is None else f"{row['times_as_fast']['median']:.2f}"
    return [
        row["name"], report.milliseconds(row["median"]), report.milliseconds(row["best"]), as_fast,
        known("flop_per_second", 1e12), known("bytes_per_second", 1e9), report.share(row.get("of_bound")),
        known("kernels"), known("device_bytes", 1e6), known("ready_seconds"),
    ]  # fmt: skip


def roofline_line(roofline):
    """The ceilings for a terminal."""
    products = ", ".join(f"{name} {rate / 1e12:,.0f}" for name, rate in roofline["products"].items())
    memory = f"{roofline['memory'] / 1e9:,.0f} GB/s, read and written ones together"
    return report.wrapped(f"ceilings measured now: products {products} TFLOP/s; memory {memory}")
