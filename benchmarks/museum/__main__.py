"""Makes what `npformer museum` shows: what finds each bug, and the losses of short runs.

It asks the gradient check, the invariants and the numbers of the right program for every bug, and trains with and
without each that training can show, with three seeds.
"""

import json
import math

from benchmarks.museum.examine import examine
from benchmarks.museum.short_run import right_course, wrong_course
from benchmarks.options import bare_parser
from npformer.io.atomic_files import write_atomically
from npformer.io.progress_bar import show_bars, watched
from npformer.io.seconds import now, since
from npformer.lab.museum import stored
from npformer.lab.museum.bugs import BUGS
from npformer.lab.museum.stored import digest, run_name

EXAMPLES = """examples:
  python -m benchmarks.museum           make what is missing, or was made of a bug that has changed since
  python -m benchmarks.museum --all     make everything anew, for example after a change of the checks

The file is npformer/lab/museum/exhibits.jsonl. It is written after each bug, so that a stopped command goes on."""
#: Significant digits of a loss: a picture shows as many; those of a run's end are told.
SHOWN, TOLD = 3, 4


def with_bug(lines, bug):
    """The lines by name, with those of a bug: kept if they are of the bug as it is now, else made anew."""
    lines = dict(lines)
    if bug.run is not None and run_name(bug.run) not in lines:
        lines[run_name(bug.run)] = {"run": run_name(bug.run)} | as_line(right_course(bug.run))
    if lines.get(bug.id, {}).get("of") != digest(bug):
        name, said, diagnosis = examine(bug)
        lines[bug.id] = {"bug": bug.id, "of": digest(bug), "found_by": name, "says": said, "diagnosis": diagnosis}
        if bug.run is not None:
            lines[bug.id] |= as_line(wrong_course(bug))
    return lines


def as_line(course):
    """A course for JSON."""
    ends = [[rounded(number, TOLD) for number in end] for end in course.ends]
    return {"trouble": course.trouble, "losses": [rounded(loss, SHOWN) for loss in course.losses], "ends": ends}


def rounded(number, digits):
    """A number as it is stored; None if it is not finite."""
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None


def as_text(lines):
    """The file's text: the lines of the runs without a bug, then those of the bugs, as far as there are any."""
    names = [*dict.fromkeys(run_name(bug.run) for bug in BUGS if bug.run is not None), *(bug.id for bug in BUGS)]
    made = [json.dumps(lines[name], ensure_ascii=False, separators=(",", ":")) for name in names if name in lines]
    return "".join(f"{line}\n" for line in made)


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("museum", (__doc__ or "").partition("\n")[0], EXAMPLES)
    parser.add_argument("--all", action="store_true", help="keep nothing of what is stored")
    args = parser.parse_args()
    began = now()
    lines = {} if args.all else stored.lines()
    with show_bars():
        for bug in watched(BUGS, "bugs", name=lambda bug: bug.id):
            lines = with_bug(lines, bug)
            write_atomically(stored.PLACE, as_text(lines).encode())
    seconds = since(began)
    if args.json:
        print(json.dumps({"file": str(stored.PLACE), "bugs": len(BUGS), "seconds": seconds}))
    else:
        print(f"{len(BUGS)} bugs in {stored.PLACE} ({seconds:.0f} s)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
