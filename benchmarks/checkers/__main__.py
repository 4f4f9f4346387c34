"""Gradient checkers side by side, on the same right and wrong pairs.

    python -m benchmarks.checkers --save benchmarks/results/checkers.json
    python -m benchmarks.checkers --checkers jax,autograd --lists foreign --only softmax

Needs PyTorch, JAX and HIPS autograd (pip install torch jax autograd); a checker that is not installed is left out, and
named. Each runs in a process of its own, in the form that it takes: a torch.autograd.Function around the pair, a
custom_vjp that calls back, a primitive with defvjp. All options are the defaults, in reverse mode. The two comparisons
get the gradients of the right backward in float64, for a random upstream gradient; the others get no reference, but
npformer for kernels in few digits.

Exit code: 0 a report was made, 2 no report can be made.
"""

import importlib.metadata
import sys

from benchmarks import machine, report
from benchmarks.checkers.checks import CHECKERS, versions
from benchmarks.checkers.listed import LISTS, items
from benchmarks.checkers.table import checkers
from benchmarks.options import add_save, bare_parser, some_of
from benchmarks.survivors import answers


def main(argv=None):
    """Parse, ask every checker, report."""
    parser = bare_parser("checkers", __doc__)
    add = parser.add_argument
    add("--checkers", type=some_of(CHECKERS), default=",".join(CHECKERS), help=f"of {', '.join(CHECKERS)}")
    add("--lists", type=some_of(LISTS), default=",".join(LISTS), help=f"of {', '.join(LISTS)}")
    add("--only", default="", metavar="TEXT", help="pairs whose name contains TEXT")
    add_save(parser)
    args = parser.parse_args(argv)
    chosen = [i for i, item in enumerate(items()) if item.list in args.lists and args.only.lower() in item.name.lower()]
    if not chosen:
        parser.error(f"--only: expected a part of a pair's name, got {args.only!r}")
    about = machine.describe([], "numpy", ["float64", "float32", "bfloat16", "float16"])
    head = {"benchmark": "checkers", "machine": about, "versions": {}}
    rows = {i: {"list": items()[i].list, "name": items()[i].name, "is_right": items()[i].is_right} for i in chosen}
    for name in args.checkers:
        try:
            head["versions"][name] = versions(name)
        except importlib.metadata.PackageNotFoundError as error:
            print(f"benchmarks: {name} is left out: {error} is not installed; pip install {error}", file=sys.stderr)
            continue
        asked = [i for i in chosen if name != "npformer cause" or items()[i].kinds]  # where the true one is listed
        said = answers("benchmarks.checkers.checks:told", [[name, i] for i in asked])
        for number, (i, answer) in enumerate(zip(asked, said, strict=True), 1):
            report.progress(f"{name}: {number} of {len(asked)}")
            died = isinstance(answer, dict)
            verdict = ["raised", 0.0, f"the process ended with {answer['code']}"] if died else answer
            rows[i].setdefault("by", {})[name] = verdict
    report.progress("")
    results = [row for row in rows.values() if "by" in row]
    report.say(checkers([{**head, "file": "not saved", "results": results}]), args.json)
    report.finish_rows(head, results, args)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
