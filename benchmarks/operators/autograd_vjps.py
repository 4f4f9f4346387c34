"""Vector-Jacobian products of HIPS autograd: each primitive as a pair, at the first of some inputs that it takes.

The forward is the function of NumPy or SciPy itself, the backward what autograd registers for it; plain, and in every
regime.
"""

from collections import Counter
from functools import partial

import numpy as np

from benchmarks.operators.case import with_regimes


def _inputs():
    """Candidates of arguments, the simplest first: numbers in (0, 1), square ones that are well conditioned."""
    rng = np.random.default_rng(0)
    a, b = (0.2 + 0.6 * rng.random((3, 4)) for _ in range(2))
    square = 2 * np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    v = 0.2 + 0.6 * rng.random(4)
    spd = square @ square.T
    return ((a,), (1.0, a), (a, b), (spd,), (square, spd), (v,), (v, v[::-1]), (a, v), (a, 1), (a, 2, 1), (v, 2),
            (a > 0.5, a, b), ((a, b),), ([a, b],), (a, (4, 3)), (a, 0, 1), (np.arange(3), a), (v, v, v))  # fmt: skip


def cases():
    """(every case, how many primitives are left out for which reason)."""
    import autograd.numpy.linalg
    import autograd.scipy.special
    import autograd.scipy.stats  # noqa: F401 - it registers more
    from autograd.core import primitive_vjps

    found, left_out = [], Counter()
    for primitive in sorted(primitive_vjps, key=lambda p: (getattr(p, "__module__", "") or "", p.__name__)):
        name = f"{(getattr(primitive, '__module__', '') or '').rpartition('.')[2]}.{primitive.__name__}"
        symmetric = {"structure": "symmetric"} if primitive.__name__ == "cholesky" else {}
        arguments = next((each for each in _inputs() if _fits(primitive, each)), None)
        if arguments is None:
            left_out["it takes none of the inputs here, or returns no real numbers"] += 1
        else:
            found += with_regimes(name, partial(_pair, primitive, arguments), **symmetric)
    return found, left_out


def _fits(primitive, arguments):
    """Whether the primitive and its vjps take these arguments, and return real numbers."""
    try:
        with np.errstate(all="ignore"):
            y = primitive(*arguments)
            if not isinstance(y, np.ndarray | float) or np.asarray(y).dtype.kind != "f" or not np.size(y):
                return False
            (_, backward), x = _pair(primitive, arguments)
            return any(g is not None for g in backward(np.ones_like(y), x))
    except Exception:  # other arguments may fit
        return False


def _pair(primitive, arguments):
    """(the pair of the float arrays among the arguments, these)."""
    from autograd import make_vjp

    wanted = [i for i, x in enumerate(arguments) if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    if not wanted:
        raise TypeError("expected an array")

    def call(*arrays):
        parts = list(arguments)
        for i, x in zip(wanted, arrays, strict=True):
            parts[i] = x
        return primitive(*parts)

    def backward(dy, arrays):
        return tuple(make_vjp(call, k)(*arrays)[0](np.asarray(dy)) for k in range(len(wanted)))

    return (lambda *arrays: (call(*arrays), arrays), backward), tuple(arguments[i] for i in wanted)
