"""Makes what `npformer museum show` shows: the findings of the checks on each bug, and the losses of short runs.

It runs all checks on every bug, and trains with and without each that training can show, with three seeds. All of it
takes a quarter of an hour. The file is npformer/lab/museum/exhibits.jsonl. It is written after each bug, so that a
stopped command goes on.

  python -m benchmarks.museum           make what is missing, or was made of a bug that has changed since
  python -m benchmarks.museum --all     make everything anew, for example after a change of the checks
"""

from benchmarks.options import bare_parser
from npformer.io.atomic_files import write_atomically
from npformer.io.progress_bar import show_bars, watched
from npformer.lab.museum import stored
from npformer.lab.museum.bugs import BUGS


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("museum", __doc__, json=False)
    parser.add_argument("--all", action="store_true", help="keep nothing of what is stored")
    lines = {} if parser.parse_args().all else stored.known()
    with show_bars():
        for bug in watched(BUGS, "bugs", name=lambda bug: bug.id):
            lines = stored.with_bug(lines, bug)
            write_atomically(stored.PLACE, stored.as_text(lines, BUGS).encode())
    print(f"{len(BUGS)} bugs in {stored.PLACE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
