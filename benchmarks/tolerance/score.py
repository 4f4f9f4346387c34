"""Tolerances on trial: right kernels at thousands of seeds, and the smallest wrong factor that a tolerance lets see."""

import warnings

import numpy as np

import npformer as npf
from benchmarks.tolerance.formulas import ADD_UP_LOW, FORMULAS, NOT_RIGHT, PRECISIONS

CASES = [(formula.name, precision) for formula in FORMULAS for precision in PRECISIONS]


def tried(job):
    """One row for each tensor of a formula in a precision. job: the number in CASES, and how many seeds."""
    number, seeds = job
    name, precision = CASES[number]
    formula = next(each for each in FORMULAS if each.name == name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = tolerances(formula, precision, sample=formula.draw)
        near = tolerances(formula, precision)
        rows = [Trial(formula, precision, row.tensor, row) for row in drawn.rows]
        for seed in range(1, seeds + 1):
            for row, values in zip(rows, compared(formula, precision, seed), strict=True):
                row.add(values, near[row.tensor])
    return [row.result(seeds) for row in rows]


def tolerances(formula, precision, **options):
    """Those of a formula at the inputs of seed 0, or of what sample draws."""
    return npf.tolerance(formula.reference, *formula.inputs(0, precision), precision=precision, **options)


def compared(formula, precision, seed):
    """For the output and each gradient: (the exact values, {kernel: its values}) of the right kernels at a seed."""
    inputs = formula.inputs(seed, precision)
    dy = formula.upstream(formula.reference[0](*inputs)[0], seed, precision)
    right = {
        name: kernel(inputs, dy)
        for name, kernel in formula.kernels(precision).items()
        if (formula.name, name, precision) not in NOT_RIGHT
        and not (precision != "float32" and (formula.name, name) in ADD_UP_LOW)
    }
    exact = formula.exact(inputs, dy)
    return [(n, {name: values[i] for name, values in right.items()}) for i, n in enumerate(exact)]


class Trial:
    """A tensor's tolerance, and what came of it over the seeds so far."""

    def __init__(self, formula, precision, tensor, row):
        self._about = {"formula": formula.name, "precision": precision}
        self.tensor, self._row = tensor, row
        self._used, self._failures, self._near, self._shown = {}, 0, 0, []

    def add(self, values, near):
        """Compare the kernels with the exact values at one more seed; near: the tolerance without ``sample``."""
        exact, kernels = values
        for name, claimed in kernels.items():
            used = share(claimed, exact, self._row)
            self._used[name] = max(used, self._used.get(name, 0.0))
            self._failures += used > 1
            self._near += share(claimed, exact, near) > 1
            self._shown.append(smallest_factor(claimed, exact, self._row))

    def result(self, seeds):
        """The row for JSON."""
        row, shown = self._row, float(np.median(self._shown))
        return self._about | {
            "tensor": row.name, "atol": row.atol, "rtol": row.rtol, "seeds": seeds, "kernels": len(self._used),
            "used": {name: round(used, 4) for name, used in self._used.items()}, "failures": self._failures,
            "failures_without_sample": self._near, "predicted": row.shows, "measured": shown,
        }  # fmt: skip


def share(claimed, exact, row):
    """The largest error, of what is allowed; 0 where nothing is rounded."""
    off = np.abs(claimed - exact)
    with np.errstate(all="ignore"):
        return float(np.max(np.where(off == 0, 0.0, off / (row.atol + row.rtol * np.abs(exact))), initial=0.0))


def smallest_factor(claimed, exact, row):
    """The smallest d > 0 for which (1 + d) times what a kernel returns fails, by bisection of the test itself."""

    def passes(d):
        return np.all(np.abs((1 + d) * claimed - exact) <= row.atol + row.rtol * np.abs(exact))

    low, high = 0.0, 1.0
    if not passes(low):
        return 0.0
    while passes(high) and high < 1e6:
        low, high = high, 4 * high
    while high - low > 1e-3 * high and high > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return high if high > 1e-12 else 0.0


def summary(rows):
    """Counts over all rows, and over those of each precision."""
    precisions = dict.fromkeys(row["precision"] for row in rows)
    return counts(rows) | {"of": {name: counts([r for r in rows if r["precision"] == name]) for name in precisions}}


def counts(rows):
    """Seeds, tests, failures, the widest tolerance, and how far off a prediction is."""
    rounded = [row for row in rows if row["atol"] or row["rtol"]]
    off = [max(row["predicted"], row["measured"]) / min(row["predicted"], row["measured"]) for row in rounded]
    widest = [1 / max(row["used"].values()) for row in rounded]
    return {
        "formulas": len({row["formula"] for row in rows}),
        "tolerances": len(rows),
        "seeds": sum(row["seeds"] for row in {(r["formula"], r["precision"]): r for r in rows}.values()),
        "tests": sum(row["seeds"] * row["kernels"] for row in rows),
        "failures": sum(row["failures"] for row in rows),
        "failures_without_sample": sum(row["failures_without_sample"] for row in rows),
        "widest": max(widest),
        "middle_width": float(np.median(widest)),
        "prediction_off": max(off),
    }
