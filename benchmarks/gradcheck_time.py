"""Measure how long a gradient check of user code takes. Each case runs in new processes, one after another, with an
empty home folder and no cached kernels:

    first      import npformer and check y = sin x at (3, 4): the time a user waits, Python's start included
    ordinary   the check of a layer norm at (4, 8, 16), three tensors; the check alone is timed, as below
    million    the check of a softmax along rows of (1000, 1000), and of a layer norm of it, with right gradients
    region     the same two with a gradient that is wrong in rows 300 to 340 and columns 500 to 600 only

The verdict is on the median. Exit code: 0 all within their limits, 1 one is not, 2 it cannot run.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks import machine, page_tables, report
from benchmarks.options import add_save, at_least_1, bare_parser, some_of
from npformer.io.seconds import now, since

SECONDS = {"first": 1.0, "ordinary": 0.5, "million": 3.0, "region": 3.0}
CASES = [("first", "sine"), ("ordinary", "layer_norm")]
CASES += [(case, target) for case in ("million", "region") for target in ("softmax", "layer_norm")]
CODE = "from benchmarks.gradcheck_time import child; child({!r}, {!r})"
CODE_OF_FIRST = """
import json
import numpy as np
import npformer as npf
x = np.random.default_rng(0).normal(size=(3, 4))
report = npf.gradcheck((lambda x: (np.sin(x), x), lambda dy, x: dy * np.cos(x)), x)
print(json.dumps({"ok": report.ok, "report": str(report)}))
"""  # the benchmark's own imports do not count


def main():
    """Run the command; returns its exit code."""
    parser = bare_parser("gradcheck_time", __doc__)
    parser.add_argument("--rounds", type=at_least_1, default=5, help="processes for each case (default: 5)")
    parser.add_argument("--only", type=some_of(SECONDS), default=",".join(SECONDS), help="cases (default: all)")
    add_save(parser)
    args = parser.parse_args()
    about = machine.describe([], "numpy", ["float64"])
    results = [measured(case, target, args.rounds) for case, target in CASES if case in args.only]
    document = {"benchmark": "gradcheck_time", "machine": about, "rounds": args.rounds, "results": results}
    report.finish(document, args, page_tables.checks)
    return 0 if all(result["within"] and result["as_expected"] for result in results) else 1


def measured(case, target, rounds):
    """Run one case in so many processes."""
    answers = [in_a_new_process(case, target) for _ in range(rounds)]
    seconds = [answer["check_s"] for answer in answers]
    last, middle = answers[-1], statistics.median(seconds)
    return {
        "case": case, "target": target, "limit_s": SECONDS[case], "middle_s": middle, "fastest_s": min(seconds),
        "seconds": seconds, "within": middle <= SECONDS[case], "ok": last["ok"],
        "as_expected": last["ok"] == (case != "region"), "report": last["report"],
    }  # fmt: skip


def in_a_new_process(case, target):
    """What a check said, and its seconds: of the first case those of its process."""
    code = CODE_OF_FIRST if case == "first" else CODE.format(case, target)
    with tempfile.TemporaryDirectory(prefix="gradcheck-time-") as home:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))}
        began = now()
        said = subprocess.check_output([sys.executable, "-c", code], env=kept | {"HOME": home}, text=True)
        return {"check_s": since(began)} | json.loads(said)


def child(case, target):
    """The child process: time one check and print its result on standard output."""
    import npformer as npf

    pair, inputs = TARGETS[target](case)
    began = now()
    report = npf.gradcheck(pair, *inputs, name=target)
    text = str(report)
    print(json.dumps({"ok": report.ok, "check_s": since(began), "report": text}))


def spoiled(gradient, case):
    """The gradient; in the case region, 10 % too large in one region."""
    wrong = gradient.copy()
    wrong[300:340, 500:600] *= 1.1
    return wrong if case == "region" else gradient


def softmax_forward(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True)
    return y, y


def softmax(case):
    """A softmax along rows, as people write it."""

    def backward(dy, y):
        return spoiled(y * (dy - (dy * y).sum(-1, keepdims=True)), case)

    return (softmax_forward, backward), (np.random.default_rng(0).normal(size=(1000, 1000)),)


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
    return (layer_norm_forward, backward), tuple(rng.normal(size=size) for size in (shape, shape[-1], shape[-1]))


TARGETS = {"softmax": softmax, "layer_norm": layer_norm}

if __name__ == "__main__":
    raise SystemExit(main())
