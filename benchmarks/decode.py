"""Greedy decoding with a key/value cache: npformer and PyTorch in turns."""

import dataclasses
import tempfile
from pathlib import Path

from benchmarks import compare, report
from benchmarks.options import at_least_1, new_parser, numbers, own_entries, run
from benchmarks.own.model import save_weights
from benchmarks.turns import Entry, contenders, take_turns
from npformer.io.percent import percent
from npformer.models.presets import PRESETS

#: The least share of equal tokens. One near-tie decided by rounding changes every later token of its row. In lower
#: precision this happens so often that the share is shown but not judged.
AGREE = {"float32": 0.98}
COLUMNS = ("", "tokens/s", "best", "times as fast", "peak MB", "imports MB", "steps")
LEGEND = (
    "tokens/s, best     tokens of the whole batch over the median and the shortest time to decode it",
    "times as fast      PyTorch's time over the row's, round by round: median, quartiles",
    "peak, imports MB   peak resident memory beyond that after imports; memory after imports (libraries)",
    "steps              batches decoded in rounds",
)
EXAMPLES = """examples:
  python -m benchmarks.decode
  python -m benchmarks.decode --size base --batch 1 --tokens 100
  python -m benchmarks.decode --against none --kernels numpy,plain --json"""


def main():
    """The command; see --help."""
    summary = "Measure greedy decoding in float32, with random weights and without an end token."
    parser = new_parser("decode", summary, EXAMPLES, "small,mid", "auto", 10.0)
    parser.add_argument("--batch", default="1,32", help="sentences per batch (default: 1,32)")
    parser.add_argument("--tokens", type=at_least_1, default=64, help="tokens per sentence (default: 64)")
    return run(parser, benchmark)


def benchmark(options):
    """Measure all sizes at all batches and report. Returns the exit code."""
    batches = [int(number) for number in numbers("--batch", options.batch, 1, 4097)]
    tokens = options.tokens
    environment, about = report.opening(options, LEGEND)
    rows = []
    for result in results(options, batches, tokens, environment):
        rows.append(result)
        report.say("\n" + describe(result), options.json)
    report.finish("decode", about, options, rows)
    return 0 if all(agrees(result) for result in rows) else 1


def results(options, batches, tokens, environment, seconds=None):
    """Measure each size, in each precision, with each batch; seconds limits one size in one precision."""
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            weights = save_weights(PRESETS[size], Path(folder), decoding=True) if options.torch else ""
            for precision in options.precisions:
                what = {"size": size, "tokens": tokens, "batches": list(batches), "precision": precision}
                with contenders(entries(options, what, weights), environment, seconds) as children:
                    for batch in batches:
                        report.progress(f"{size}, batch {batch} …")
                        result = measure(options, size, batch, tokens, children)
                        report.progress("")
                        yield result | {"precision": precision}


def entries(options, what, weights):
    """npformer with each requested kernel table, and PyTorch."""
    common = {**what, "device": options.device}
    contenders = own_entries(options.kernels, "benchmarks.own.decode:decode", common)
    if options.torch:
        contenders.append(Entry("torch", "benchmarks.peers.torch_decode:decode", {**common, "weights": weights}))
    return contenders


def measure(options, size, batch, tokens, children):
    """All numbers of one table."""
    measured = take_turns(children, f"batch {batch}", options.budget)
    rows = compare.rows(children, measured)
    for row in rows:
        row["tokens_per_second"] = batch * tokens / row["median"]
        row["best_tokens_per_second"] = batch * tokens / row["best"]
    return {
        "size": size, "shape": dataclasses.asdict(PRESETS[size]), "batch": batch, "tokens": tokens,
        "contenders": rows, "agreement": agreement(measured),
    }  # fmt: skip


def agreement(measured):
    """The share of tokens that all contenders chose alike."""
    tokens_of_each = [[token for row in each.values[0] for token in row] for each in measured.values()]
    alike = [len(set(choices)) == 1 for choices in zip(*tokens_of_each, strict=True)]
    return sum(alike) / len(alike)


def agrees(result):
    """Whether all contenders agree, as far as the precision can tell."""
    share = result["agreement"]
    return share >= AGREE.get(result["precision"], 0.0)


def describe(result):
    """One table, with its heading and its notes."""
    rows = [
        [row["name"], f"{row['tokens_per_second']:,.0f}", f"{row['best_tokens_per_second']:,.0f}",
         report.ratio(row["times_as_fast"]), *compare.cells(row)]
        for row in result["contenders"]
    ]  # fmt: skip
    preset, agreed = PRESETS[result["size"]], result["agreement"]
    title = f"{result['size']}, {result['precision']}, batch {result['batch']}, {result['tokens']} tokens each: "
    verdict = "" if agrees(result) else ": NOT THE SAME COMPUTATION"
    return "\n".join(
        [
            report.wrapped(title + str(preset).rpartition(", batch")[0]),
            report.table(COLUMNS, rows),
            compare.threads(result["contenders"]),
            *compare.others(result["contenders"]),
            f"tokens that all chose alike: {percent(agreed)}{verdict}",
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
