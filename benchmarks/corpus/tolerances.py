"""Tolerances on trial: right kernels of a formula at other seeds, and the smallest wrong factor that would show."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import npformer as npf
from benchmarks.corpus import rounding
from npformer.check.inputs import is_float

SEEDS = 167
PRECISIONS = ("float32", "bfloat16", "float16")
#: Kernels of PyTorch on the CPU that add up in what they store, in less than float32: npf.tolerance(accumulate=…).
ADD_UP_LOW = {("layer_norm", "PyTorch's own"), ("embedding", "PyTorch's own"), ("embedding", "PyTorch, elementary")}
#: A kernel that is less exact than its precision, and why: it is no right kernel there.
NOT_RIGHT = {("gelu", "PyTorch's own", "float32"): "oneDNN approximates erf to 1.5e-7"}
OF_TORCH = ("PyTorch's own", "PyTorch, elementary", "PyTorch, with sigmoid", "PyTorch, backward by hand")


class Storage(NamedTuple):
    """keep(x): x as it is stored, in float32 arrays; product(a, b): a @ b, term after term in float32."""

    keep: Callable[[Any], Any]

    @staticmethod
    def product(a, b):
        return np.cumsum(a[..., :, :, None] * b[..., None, :, :], axis=-2, dtype=np.float32)[..., -1, :]


class Formula(NamedTuple):
    """A reference pair, what draws its inputs, a right kernel in NumPy for a Storage, and functions of tensors."""

    name: str
    reference: Any
    draw: Callable[[np.random.Generator], Any]
    in_numpy: Callable[[Storage], Any]
    in_torch: tuple[Callable[..., Any], ...]

    @classmethod
    def of(cls, pair, evaluate):
        """That of a pair of the corpus. Without PyTorch NumPy's kernel stands alone."""
        names: dict[str, Any] = {"KERNELS": ()}
        if find_spec("torch") is not None:
            exec(pair.torch, names)
        return cls(pair.name, evaluate(pair.reference), evaluate(pair.draw), evaluate(pair.kernel), names["KERNELS"])

    def inputs(self, seed, precision):
        """The inputs that this seed draws, in numbers of the precision, in float64."""
        return tuple(kept(x, precision) if is_float(x) else x for x in self.draw(np.random.default_rng([seed, 21])))

    def upstream(self, y, seed, precision):
        """dy: normal numbers of the precision, or 1 for a single number, such as a loss."""
        numbers = np.random.default_rng([seed, 22]).normal(size=np.shape(y))
        return np.ones(()) if np.ndim(y) == 0 else kept(numbers, precision)

    def kernels(self, precision):
        """Name -> kernel(inputs, dy), which returns the output and the gradients in float64: those that are right."""
        storage = Storage(lambda x: rounding.float32(rounding.stored(x, precision)))
        found = {"NumPy, sums in turn": partial(by_pair, self.in_numpy(storage), dtype=np.float32)}
        for name, call in zip(OF_TORCH, self.in_torch, strict=False):
            adds_up_low = precision != "float32" and (self.name, name) in ADD_UP_LOW
            if (self.name, name, precision) not in NOT_RIGHT and not adds_up_low:
                found[name] = partial(by_torch, call, precision=precision)
        return found

    def tolerances(self, precision, **options):
        """Those at the inputs of seed 0, or of what sample draws."""
        return npf.tolerance(self.reference, *self.inputs(0, precision), precision=precision, **options)


def tried(formula, seeds=SEEDS):
    """One row for each tensor of a formula in each precision."""
    return [row for precision in PRECISIONS for row in _tried(formula, precision, seeds)]


def _tried(formula, precision, seeds):
    with_sample = formula.tolerances(precision, sample=formula.draw)
    near = formula.tolerances(precision)
    trials = [_Trial(precision, row) for row in with_sample.claims]
    for seed in range(1, seeds + 1):
        inputs = formula.inputs(seed, precision)
        dy = formula.upstream(formula.reference[0](*inputs)[0], seed, precision)
        claimed = {name: kernel(inputs, dy) for name, kernel in formula.kernels(precision).items()}
        for i, (trial, exact) in enumerate(zip(trials, by_pair(formula.reference, inputs, dy), strict=True)):
            trial.add({name: values[i] for name, values in claimed.items()}, exact, near[trial.row.name])
    return [trial.result(seeds) for trial in trials]


class _Trial:
    """A tensor's tolerance, and what came of it over the seeds so far."""

    def __init__(self, precision, row):
        self.row, self._precision = row, precision
        self._used, self._failures, self._near, self._shown = {}, 0, 0, []

    def add(self, claimed, exact, near):
        """Compare the kernels with the exact values at one more seed; near: the tolerance without ``sample``."""
        for name, values in claimed.items():
            used = share(values, exact, self.row)
            self._used[name] = max(used, self._used.get(name, 0.0))
            self._failures += used > 1
            self._near += share(values, exact, near) > 1
            self._shown.append(smallest_factor(values, exact, self.row))

    def result(self, seeds):
        row = self.row
        return {
            "precision": self._precision, "tensor": row.variable, "atol": row.atol, "rtol": row.rtol,
            "tests": seeds * len(self._used), "used": round(max(self._used.values()), 4), "failures": self._failures,
            "failures_without_sample": self._near, "predicted": row.shows, "measured": float(np.median(self._shown)),
        }  # fmt: skip


def kept(x, precision):
    """x in numbers of the precision, in float64."""
    return rounding.stored(x, precision).astype(np.float64)


def by_pair(pair, inputs, dy, dtype=np.float64):
    """[y, gradients …] of a pair in NumPy, in float64."""
    forward, backward = pair
    y, cache = forward(*(x.astype(dtype) if is_float(x) else x for x in inputs))
    gradients = backward(dy.astype(dtype), cache)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    return [np.asarray(x, dtype=np.float64) for x in (y, *gradients)]


def by_torch(call, inputs, dy, precision):
    """[y, gradients …] of a function of tensors, in float64."""
    import torch

    dtype = getattr(torch, precision)
    tensors = [torch.tensor(x, dtype=dtype) if is_float(x) else torch.tensor(x) for x in inputs]
    wanted = [t.requires_grad_() for t in tensors if t.is_floating_point()]
    y = call(*tensors)
    gradients = torch.autograd.grad(y, wanted, torch.tensor(dy, dtype=dtype))
    return [x.detach().double().numpy() for x in (y, *gradients)]


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


def counts(tensors):
    """Tests, failures, how wide the tolerances are, and how far off a prediction is."""
    rounded = [each for each in tensors if each["atol"] or each["rtol"]]
    off = [max(each["predicted"], each["measured"]) / min(each["predicted"], each["measured"]) for each in rounded]
    widest = [1 / each["used"] for each in rounded]
    return {
        "tolerances": len(tensors), "tests": sum(each["tests"] for each in tensors),
        "failures": sum(each["failures"] for each in tensors),
        "failures_without_sample": sum(each["failures_without_sample"] for each in tensors),
        "widest": max(widest), "middle_width": float(np.median(widest)), "prediction_off": max(off),
    }  # fmt: skip
