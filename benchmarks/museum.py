"""Makes what `npformer museum show` shows: the findings of the checks on each bug, and the losses of short runs.

It runs all checks on every bug, and trains with and without each that training can show, with three seeds. All of it
takes a quarter of an hour.
"""

import json

from benchmarks.options import bare_parser
from npformer.io.atomic_files import write_atomically
from npformer.io.progress_bar import show_bars, watched
from npformer.io.seconds import now, since
from npformer.lab.museum import stored
from npformer.lab.museum.bugs import BUGS

EXAMPLES = """examples:
  python -m benchmarks.museum           make what is missing, or was made of a bug that has changed since
  python -m benchmarks.museum --all     make everything anew, for example after a change of the checks

The file is npformer/lab/museum/exhibits.jsonl. It is written after each bug, so that a stopped command goes on."""


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("museum", (__doc__ or "").partition("\n")[0], EXAMPLES)
    parser.add_argument("--all", action="store_true", help="keep nothing of what is stored")
    args = parser.parse_args()
    began = now()
    lines = {} if args.all else stored.known()
    with show_bars():
        for bug in watched(BUGS, "bugs", name=lambda bug: bug.id):
            lines = stored.with_bug(lines, bug)
            write_atomically(stored.PLACE, stored.as_text(lines, BUGS).encode())
    seconds = since(began)
    if args.json:
        print(json.dumps({"file": str(stored.PLACE), "bugs": len(BUGS), "seconds": seconds}))
    else:
        print(f"{len(BUGS)} bugs in {stored.PLACE} ({seconds:.0f} s)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
