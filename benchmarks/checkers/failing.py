"""Finds the inputs at which the bugs of the regimes' list show, for the checkers that do not look for them.

    python -m benchmarks.checkers.failing

npformer's search makes them: the smallest input that fails in the regime or at the size that failed first. They are
written to failing.json, which is read as it is: the other checkers are then asked at the same place.
"""

import json

from benchmarks import report
from benchmarks.checkers.checks import quiet
from benchmarks.checkers.listed import FAILING
from benchmarks.regimes.listed import BUGS


def main():
    """Search, and write the file. Returns 0."""
    found = {}
    for number, bug in enumerate(BUGS, 1):
        report.progress(f"{number} of {len(BUGS)}: {bug.name}")
        quiet()
        smallest = bug.judged(bug.wrong, regimes="all", explain=False).smallest
        if smallest:
            found[bug.name] = {"inputs": [as_json(x) for x in smallest]}
    lines = (f" {json.dumps(name, ensure_ascii=False)}: {json.dumps(inputs)}" for name, inputs in found.items())
    FAILING.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(found)} of {len(BUGS)} bugs fail at the inputs in {FAILING.name}")
    return 0


def as_json(x):
    """An array as its dtype, shape and numbers, which JSON keeps exactly."""
    return {"dtype": str(x.dtype), "shape": list(x.shape), "numbers": x.ravel().tolist()}


if __name__ == "__main__":
    raise SystemExit(main())
