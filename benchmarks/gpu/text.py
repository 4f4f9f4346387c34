"""The results as Markdown, and the targets as a table for a terminal."""

from benchmarks import on_gpu, report
from benchmarks.gpu.targets import SIZES, against_part, train_part
from benchmarks.page_tables import table
from npformer.percent import percent

VERDICTS = {True: "holds", False: "DOES NOT HOLD", None: "not measured"}


def targets_table(targets):
    """The table of targets: wanted, found, and whether each holds."""
    held = sum(bool(each["holds"]) for each in targets)
    return f"{report.table(*_targets(targets))}\n{held} of {len(targets)} targets hold"


def _targets(targets):
    rows = [[each["what"], each["wanted"], each["found"] or "–", VERDICTS[each["holds"]]] for each in targets]
    return ("target", "wanted", "found", ""), rows


def markdown(document):
    """All results as a Markdown page."""
    parts = (_head(document), *_training(document["results"]), *_others(document["results"]), _parts(document))
    return "\n".join(parts)


def _head(document):
    machine = "\n".join(f"- {name}: {value}" for name, value in document["machine"].items())
    return f"# On a GPU\n\n{machine}\n\n## Targets\n\n{table(*_targets(document['targets']))}"


def _training(results):
    """Tables of training steps."""
    columns = (
        "", "median ms", "best ms", "times as fast as the best of PyTorch", "TFLOP/s", "GB/s", "of ceiling", "kernels",
        "GPU MB", "ready s",
    )  # fmt: skip
    if "ceilings" in results:
        rates = on_gpu.rates(results["ceilings"])
        yield f"## Training steps, dropout 0.1\n\nCeilings, measured in the same run: {rates}.\n"
    for precision in ("tf32", "bfloat16", "float32"):
        for size in SIZES:
            for part, how in ((train_part, "alone"), (against_part, "in turns with its peers")):
                if (found := results.get(part(size, precision))) is not None:
                    rows = [on_gpu.cells(row, report.ratio(row["times_as_fast"])) for row in found["contenders"]]
                    yield f"### {size}, {precision}: npformer {how}\n\n{table(columns, rows)}"


def _others(results):
    """All other measurements."""
    if "decode" in results:
        rows = [
            [f"{found['size']}, batch {found['batch']}", row["name"], f"{row['tokens_per_second']:,.0f}",
             report.ratio(row["times_as_fast"]), percent(found["agreement"], 0)]
            for found in results["decode"] for row in found["contenders"]
        ]  # fmt: skip
        columns = ("", "", "tokens/s", "times as fast", "tokens chosen alike")
        yield f"## Greedy decoding, tf32\n\n{table(columns, rows)}"
    if "ops" in results:
        rows = [_operation(found) for found in results["ops"]]
        yield f"## Operations at mid, tf32\n\n{table(('', 'npformer ms', 'torch ms', 'times as fast', 'GB/s'), rows)}"
    if "gradients" in results:
        rows = [
            [each["tensor"], "×".join(map(str, each["shape"])), f"{each['error']:.1e}", each["note"],
             "right" if each["holds"] else "WRONG"]
            for each in results["gradients"]["rows"]
        ]  # fmt: skip
        columns = ("tensor", "shape", "error", "", "")
        yield f"## Gradients in float32 beside float64 on the CPU\n\n{table(columns, rows)}"
    if "tests" in results and results["tests"]["compile_seconds"]:
        rows = [[name, f"{seconds:.1f}"] for name, seconds in results["tests"]["compile_seconds"].items()]
        title = "Seconds until torch.compile (reduce-overhead) was ready, all at once, beside the tests"
        yield f"## {title}\n\n{table(('', 's'), rows)}"


def _operation(found):
    rows = {row["name"].partition("-")[0]: row for row in found["contenders"]}
    own, peer = rows["npformer"], rows.get("torch")
    return [
        f"{found['op']} {found['direction']}",
        report.milliseconds(own["median"]),
        report.milliseconds(peer["median"]) if peer else "–",
        report.ratio(own["times_as_fast"]),
        f"{own['bytes_per_second'] / 1e9:,.0f}",
    ]


def _parts(document):
    rows = [
        [each["part"], each["state"], f"{each['seconds']:.1f}", each["said"].replace("\n", " ")]
        for each in document["parts"]
    ]
    return f"## Parts\n\n{table(('part', 'state', 's', 'said'), rows)}"
