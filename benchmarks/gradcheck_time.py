"""How long a gradient check of user code takes: the first in a new process, an ordinary one, one of 10⁶ numbers.

Each case runs in new processes, one after another, with an empty home folder and no cached kernels:

    first      import npformer and check y = sin x at (3, 4): the time a user waits, Python's start included
    ordinary   the check of a layer norm at (4, 8, 16), three tensors; the check alone is timed, as below
    million    the check of a softmax along rows of (1000, 1000), and of a layer norm of it, with right gradients
    region     the same two with a gradient that is wrong in rows 300 to 340 and columns 500 to 600 only

The table shows the fastest and the median run; the verdict is on the median.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks import machine, report
from benchmarks.options import add_save, at_least_1, bare_parser
from benchmarks.precision import references

EXAMPLES = """examples:
  python -m benchmarks.gradcheck_time                        five processes for each case
  python -m benchmarks.gradcheck_time --rounds 1 --only first,ordinary
  python -m benchmarks.gradcheck_time --save benchmarks/results/gradcheck_time.json

exit code: 0 all within their limits, 1 one is not, 2 it cannot run"""

ROWS, COLUMNS = slice(300, 340), slice(500, 600)
SECONDS = {"first": 1.0, "ordinary": 0.5, "million": 3.0, "region": 3.0}
COLUMN_NAMES = ("case", "target", "limit s", "middle s", "fastest s", "verdict", "as expected")


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("gradcheck_time", "Measure how long a gradient check takes.", EXAMPLES)
    parser.add_argument("--rounds", type=at_least_1, default=5, help="processes for each case (default: 5)")
    parser.add_argument("--only", default=",".join(SECONDS), help=f"of {', '.join(SECONDS)} (default: all)")
    add_save(parser)
    args = parser.parse_args()
    only = args.only.split(",")
    if not set(only) <= SECONDS.keys():
        parser.error(f"--only: expected some of {', '.join(SECONDS)}, got {args.only}")
    about = machine.describe([], True, "numpy", ["float64"])
    results = [measured(case, target, args.rounds) for case, target in CASES if case in only]
    document = {"benchmark": "gradcheck_time", "machine": about, "rounds": args.rounds, "results": results}
    report.keep(document, args.save)
    print(json.dumps(document) if args.json else f"{report.head(about)}\n\n{shown(results)}")
    return 0 if all(result["within"] and result["as_expected"] for result in results) else 1


def shown(results):
    """The table."""
    rows = [
        [
            result["case"], result["target"], f"{result['limit_s']:g}", f"{result['middle_s']:.2f}",
            f"{result['fastest_s']:.2f}", "within" if result["within"] else "OVER",
            "yes" if result["as_expected"] else "NO",
        ]
        for result in results
    ]  # fmt: skip
    return report.table(COLUMN_NAMES, rows)


def measured(case, target, rounds):
    """Run one case in so many processes."""
    answers = [_in_a_new_process(case, target) for _ in range(rounds)]
    seconds = [answer["whole_s"] if case == "first" else answer["check_s"] for answer in answers]
    last, middle = answers[-1], statistics.median(seconds)
    return {
        "case": case, "target": target, "limit_s": SECONDS[case], "middle_s": middle, "fastest_s": min(seconds),
        "seconds": seconds, "within": middle <= SECONDS[case], "ok": last["ok"],
        "as_expected": last["ok"] == (case != "region"), "report": last["report"],
    }  # fmt: skip


def _in_a_new_process(case, target):
    with tempfile.TemporaryDirectory(prefix="gradcheck-time-") as home:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))}
        code = f"from benchmarks.gradcheck_time import child; child({case!r}, {target!r})"
        before = time.perf_counter()
        run = subprocess.run(
            [sys.executable, "-c", CODE_OF_FIRST if case == "first" else code],
            env=kept | {"HOME": home},
            capture_output=True,
            text=True,
            check=True,
        )
        return {"whole_s": time.perf_counter() - before} | json.loads(run.stdout)


CODE_OF_FIRST = """
import json
import numpy as np
import npformer as npf
x = np.random.default_rng(0).normal(size=(3, 4))
report = npf.gradcheck((lambda x: (np.sin(x), x), lambda dy, x: dy * np.cos(x)), x)
print(json.dumps({"ok": report.ok, "report": str(report)}))
"""  # the benchmark's own imports do not count


def child(case, target):
    """The child process: time one check and print its result on standard output."""
    import npformer as npf

    pair, inputs = TARGETS[target](case)
    before = time.perf_counter()
    report = npf.gradcheck(pair, *inputs, name=target)
    text = str(report)
    taken = time.perf_counter() - before
    print(json.dumps({"ok": report.ok, "check_s": taken, "report": text}))


def spoiled(gradient, case):
    """The gradient; in the case region, 10 % too large in one region."""
    if case != "region":
        return gradient
    wrong = gradient.copy()
    wrong[ROWS, COLUMNS] *= 1.1
    return wrong


def softmax(case):
    """A softmax along rows, as people write it."""
    forward, backward = references.softmax
    pair = forward, lambda dy, y: spoiled(backward(dy, y), case)
    return pair, (np.random.default_rng(0).normal(size=(1000, 1000)),)


def layer_norm_forward(x, gamma, beta):
    centred = x - x.mean(-1, keepdims=True)
    r = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    x_hat = centred * r
    return gamma * x_hat + beta, (x_hat, r, gamma)


def layer_norm(case):
    """A layer norm, as people write it; small in the ordinary case."""

    def backward(dy, cache):
        x_hat, r, gamma = cache
        g = dy * gamma
        dx = r * (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True))
        tokens = tuple(range(dy.ndim - 1))
        return spoiled(dx, case), (dy * x_hat).sum(tokens), dy.sum(tokens)

    rng, shape = np.random.default_rng(0), (4, 8, 16) if case == "ordinary" else (1000, 1000)
    return (layer_norm_forward, backward), tuple(rng.normal(size=s) for s in (shape, shape[-1], shape[-1]))


TARGETS = {"softmax": softmax, "layer_norm": layer_norm}
CASES = [("first", "sine"), ("ordinary", "layer_norm"), *((c, t) for c in ("million", "region") for t in TARGETS)]

if __name__ == "__main__":
    raise SystemExit(main())
