"""Measure greedy decoding with a key/value cache, of random weights and without an end token: npformer and PyTorch.

python -m benchmarks.decode --size base --batch 1 --tokens 100
python -m benchmarks.decode --against none --kernels numpy,plain
"""

import tempfile
from pathlib import Path

from benchmarks import harness, page_tables
from benchmarks.harness import Entry, contenders, take_turns
from benchmarks.options import answered, at_least_1, new_parser, numbers, own_entries
from benchmarks.own.model import save_weights
from npformer.models.presets import PRESETS

#: The least share of equal tokens. One near-tie decided by rounding changes every later token of its row. In lower
#: precision this happens so often that the share is shown but not judged.
AGREE = {"float32": 0.98}


def main():
    """The command; see --help."""
    parser = new_parser("decode", __doc__, "small,mid", 10.0)
    parser.add_argument("--batch", type=numbers(1, 4097, int), default="1,32", help="sentences (default: 1,32)")
    parser.add_argument("--tokens", type=at_least_1, default=64, help="tokens per sentence (default: 64)")
    return answered(parser, results, page_tables.decoding, agrees)


def results(args, environment):
    """Measure each size with each batch."""
    for size in args.size:
        what = {"size": size, "tokens": args.tokens, "batches": args.batch, "device": "numpy"}
        started = own_entries(args.kernels, "benchmarks.own.decode:decode", what)
        yield from beside(started, what, args.torch, environment, args.budget)


def beside(started, what, torch, environment, budget, seconds=None):
    """Measure npformer's contenders, and PyTorch's if wanted; seconds limits it all."""
    with tempfile.TemporaryDirectory() as folder:
        if torch:
            options = {**what, "weights": save_weights(PRESETS[what["size"]], Path(folder), decoding=True)}
            started = [*started, Entry("torch", "benchmarks.peers.torch_decode:decode", options)]
        with contenders(started, environment, seconds) as children:
            for batch in what["batches"]:
                yield measured(children, what, batch, budget)


def measured(children, what, batch, budget):
    """One batch of contenders that are ready."""
    turns = take_turns(children, f"batch {batch}", budget)
    rows = harness.rows(children, turns)
    for row in rows:
        row["tokens_per_second"] = batch * what["tokens"] / row["median"]
    return {
        "size": what["size"], "shape": vars(PRESETS[what["size"]]), "batch": batch, "tokens": what["tokens"],
        "precision": what.get("precision", "float32"), "contenders": rows, "agreement": agreement(turns),
    }  # fmt: skip


def agreement(turns):
    """The share of tokens that all contenders chose alike."""
    tokens_of_each = [[token for row in each.values[0] for token in row] for each in turns.values()]
    alike = [len(set(choices)) == 1 for choices in zip(*tokens_of_each, strict=True)]
    return sum(alike) / len(alike)


def agrees(result):
    """Whether all contenders agree, as far as the precision can tell."""
    return result["agreement"] >= AGREE.get(result["precision"], 0.0)


if __name__ == "__main__":
    raise SystemExit(main())
