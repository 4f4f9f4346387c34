"""Measure beam search against greedy decoding: held-out texts of a trained run, batch by batch, in turns.

python -m benchmarks.beam runs/dates-001 --beam 8 --batch 1,32
"""

import sys

from benchmarks import harness, machine, page_tables, report
from benchmarks.harness import Budget, ContenderError, Entry, contenders, take_turns
from benchmarks.options import add_save, at_least_1, bare_parser, numbers


def main():
    """The command; see --help."""
    parser = bare_parser("beam", __doc__)
    parser.add_argument("run", help="the folder of a run whose model translates")
    parser.add_argument("--beam", type=at_least_1, default=4, help="hypotheses per text (default: 4)")
    parser.add_argument("--batch", type=numbers(1, 4097, int), default="1,4,16,64", help="texts (default: 1,4,16,64)")
    parser.add_argument("--texts", type=at_least_1, default=64, help="held-out texts in all (default: 64)")
    parser.add_argument("--max-len", type=at_least_1, default=60, help="the most tokens of an output (default: 60)")
    parser.add_argument("--rounds", type=at_least_1, default=9, help="(default: 9)")
    add_save(parser)
    args = parser.parse_args()
    environment, removed = machine.contenders_environment()
    about = machine.describe(removed, "numpy", ["float32"])
    try:
        found = list(results(args, environment))
    except ContenderError as error:
        print(f"benchmarks.beam: {error}", file=sys.stderr)
        return 2
    name = args.run.rstrip("/").rpartition("/")[2]
    document = {"benchmark": "beam", "machine": about, "run": name, "beam": args.beam, "results": found}
    report.finish(document, args, page_tables.beam)
    return 0


def results(args, environment):
    """Measure each batch: median seconds of both ways, and the time of beam search over that of greedy decoding."""
    common = {"run": args.run, "batches": args.batch, "texts": args.texts, "max_len": args.max_len}
    ways = {"greedy": None, "beam": args.beam}
    started = [Entry(way, "benchmarks.own.decode:trained", common | {"beam": beam}) for way, beam in ways.items()]
    with contenders(started, environment) as children:
        for batch in args.batch:
            turns = take_turns(children, f"batch {batch}", Budget(1e9, args.rounds, 0.0, 1))
            greedy, beam = (turns[way].rounds for way in ways)
            medians = {way: harness.median(turns[way].rounds) for way in ways}
            yield {"batch": batch, **medians, "ratio": harness.ratio(greedy, beam)}


if __name__ == "__main__":
    raise SystemExit(main())
