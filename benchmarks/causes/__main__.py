"""Whether explain --step names the cause that was planted in a step first, and accuses no sound step.

    python -m benchmarks.causes                      eight kinds of planted cause, five seeds each, and 20 sound steps
    python -m benchmarks.causes --sound 0            the planted ones alone
    python -m benchmarks.causes --save benchmarks/results/causes.json

What is planted, and what must be named first, was written before the code (planted.py). Thresholds were chosen with
seeds above 100; those counted here are 0 to 4.

Exit code: 0 a report was made, 2 bad input.
"""

from benchmarks import machine, report
from benchmarks.causes.planted import KINDS, SEEDS, SOUND_RUNS
from benchmarks.causes.score import score
from benchmarks.options import add_save, bare_parser


def main(argv=None):
    """Parse, plant, report."""
    parser = bare_parser("causes", __doc__)
    parser.add_argument("--sound", type=int, default=SOUND_RUNS, metavar="N", help="sound steps (default: %(default)s)")
    add_save(parser)
    args = parser.parse_args(argv)
    rows = []
    for row in score(SEEDS, args.sound):
        rows.append(row)
        report.progress(f"{len(rows)}: {row['planted']} {row['seed']}: {', '.join(row['named']) or 'nothing'}")
    report.progress("")
    report.say(text(rows), args.json)
    about = machine.describe([], True, "numpy", ["float32", "float64"])
    report.finish_rows({"benchmark": "causes", "machine": about, "summary": summary(rows)}, rows, args)
    return 0


def summary(rows):
    """How often each planted cause was named first, named at all; and how many sound steps were accused."""
    found = {}
    for kind in KINDS:
        of = [row["named"] for row in rows if row["planted"] == kind.cause]
        found[kind.cause] = {
            "steps": len(of), "first": sum(named[:1] == [kind.cause] for named in of),
            "named": sum(kind.cause in named for named in of),
        }  # fmt: skip
    sound = [row["named"] for row in rows if row["planted"] == "sound"]
    return {"planted": found, "sound": len(sound), "accused": sum(map(bool, sound))}


def text(rows):
    """Each step that is misjudged, then the counts."""
    found = summary(rows)
    bad = [row for row in rows if row["named"][:1] != ([] if row["planted"] == "sound" else [row["planted"]])]
    lines = [f"{row['planted']}, seed {row['seed']}: named {', '.join(row['named']) or 'nothing'}" for row in bad]
    table = [[name, *map(str, counts.values())] for name, counts in found["planted"].items()]
    last = f"{found['accused']} of {found['sound']} sound steps accused"
    return "\n".join([*lines, "", report.table(("planted", "steps", "named first", "named"), table), "", last])


if __name__ == "__main__":
    raise SystemExit(main())
