"""Finds the inputs at which the bugs of the regimes' list show, for the checkers that do not look for them.

    python -m benchmarks.checkers.failing

npformer's search makes them: the smallest input that fails in the regime or at the size that failed first. They are
written to results/failing.json: the other checkers are then asked at the same place.
"""

from types import SimpleNamespace

from benchmarks import machine, report
from benchmarks.checkers.checks import quiet
from benchmarks.checkers.listed import FAILING, label
from benchmarks.corpus.asked import checked
from benchmarks.corpus.pairs import pairs


def main():
    """Search, and write the file. Returns 0."""
    found, every = [], [(pair, mistake) for pair in pairs("regimes") for mistake in pair.mistakes]
    quiet()
    for number, (pair, mistake) in enumerate(every, 1):
        report.progress(f"{number} of {len(every)}: {label(pair, mistake)}")
        smallest = checked(pair, mistake, regimes="all", explain=False).smallest
        if smallest:
            found.append({"name": label(pair, mistake), "inputs": list(map(as_json, smallest))})
    head = {"benchmark": "failing", "machine": machine.describe([], "numpy", ["float64"])}
    report.finish_rows(head, found, SimpleNamespace(json=False, save=FAILING))
    print(f"{len(found)} of {len(every)} mistakes fail at the inputs in {FAILING.name}")
    return 0


def as_json(x):
    """An array as its dtype, shape and numbers, which JSON keeps exactly."""
    return {"dtype": str(x.dtype), "shape": list(x.shape), "numbers": x.ravel().tolist()}


if __name__ == "__main__":
    raise SystemExit(main())
