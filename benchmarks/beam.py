"""Beam search against greedy decoding: the ratio of their times on held-out texts of a trained run."""

import json
import sys
import time
from pathlib import Path

import npformer as npf
from benchmarks import compare, machine, report
from benchmarks.options import UsageError, add_save, at_least_1, bare_parser, numbers
from npformer.errors import NpformerError
from npformer.models import Transformer
from npformer.run import RunDirectory
from npformer.run.config_file import read_toml
from npformer.run.options import SECTIONS
from npformer.run.trained import read_trained
from npformer.training.assemble import assemble

COLUMNS = ("batch", "greedy ms", "beam ms", "times as long")
LEGEND = """ms               time to decode all texts, batch by batch: median over rounds, in turns
times as long    time of beam search over time of greedy decoding, round by round: median, quartiles"""
EXAMPLES = """examples:
  python -m benchmarks.beam runs/numbers-001
  python -m benchmarks.beam runs/dates-001 --beam 8 --batch 1,32 --json"""


def main():
    """The command; see --help."""
    parser = bare_parser("beam", __doc__, EXAMPLES)
    parser.add_argument("run", type=Path, help="the folder of a run whose model translates")
    parser.add_argument("--beam", type=int, default=4, help="hypotheses per text (default: 4)")
    parser.add_argument("--batch", default="1,4,16,64", help="texts per batch (default: 1,4,16,64)")
    parser.add_argument("--texts", type=at_least_1, default=64, help="held-out texts in all (default: 64)")
    parser.add_argument("--max-len", type=int, default=60, help="the most tokens of an output (default: 60)")
    parser.add_argument("--rounds", type=at_least_1, default=9, help="(default: 9)")
    add_save(parser)
    args = parser.parse_args()
    try:
        return _measured(args)
    except (UsageError, NpformerError) as error:
        print(f"benchmarks.beam: {error}", file=sys.stderr)
        return 2


def _measured(args):
    batches = [int(number) for number in numbers("--batch", args.batch, 1, 4097)]
    run = RunDirectory.open(args.run)
    model = read_trained(run, "numpy").model
    if not isinstance(model, Transformer):
        raise UsageError(
            f"{args.run}: expected a run whose model translates, such as numbers, got {type(model).__name__}"
        )
    task = assemble(read_toml(run.config_path, SECTIONS)).task
    src = task.collate(task.held_out(args.texts))[0]
    about = machine.describe([], False, "numpy", ["float32"])
    report.say(f"{report.head(about)}\n\n{LEGEND}\n", args.json)
    results = [compared(model, src, batch, args.rounds, beam=args.beam, max_len=args.max_len) for batch in batches]
    rows = [
        [str(row["batch"]), *(report.milliseconds(row[way]) for way in ("greedy", "beam")), report.ratio(row["ratio"])]
        for row in results
    ]
    report.say(report.table(COLUMNS, rows), args.json)
    document = {"benchmark": "beam", "machine": about, "run": args.run.name, "beam": args.beam, "results": results}
    report.keep(document, args.save)
    if args.json:
        print(json.dumps(document))
    return 0


def compared(model, src, batch, rounds, *, beam, max_len):
    """Decode src (B, S) in batches, greedily and by beam search in turns: median seconds of each, and their ratio."""
    parts = [src[start : start + batch] for start in range(0, len(src), batch)]
    ways = [
        lambda part: npf.greedy(model, part, max_len),
        lambda part: npf.beam_search(model, part, max_len, beam=beam),
    ]
    taken = [[[_seconds(way, parts)] for way in ways] for _ in range(rounds + 1)][1:]  # the first round warms up
    greedy, searched = zip(*taken, strict=True)
    medians = {name: compare.times(each).median for name, each in (("greedy", greedy), ("beam", searched))}
    return {"batch": batch, **medians, "ratio": compare.ratio(greedy, searched)._asdict()}


def _seconds(way, parts):
    start = time.perf_counter()
    for part in parts:
        way(part)
    return time.perf_counter() - start


if __name__ == "__main__":
    raise SystemExit(main())
