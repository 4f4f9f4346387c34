"""One gradient, derived, written and proven: the softplus y = log(1 + exp x).

Its derivative is the logistic function, dx = dy/(1 + exp(−x)). The script checks it, then checks a
version with a wrong sign, to show how a wrong gradient is reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import npformer as npf

Array = Any


def softplus_forward(x: Array) -> tuple[Array, Array]:
    """x (...) to y (...); the cache is x itself."""
    return np.log(1 + np.exp(x)), x


def softplus_backward(dy: Array, x: Array) -> tuple[Array]:
    """Gradient (dx (...),) of softplus_forward."""
    return (dy / (1 + np.exp(-x)),)


def forgetful_backward(dy: Array, x: Array) -> tuple[Array]:
    """The same gradient with a wrong sign."""
    return (dy / (1 + np.exp(x)),)


def main() -> None:
    """Print both tables."""
    x = np.random.default_rng(0).normal(size=(3, 4))
    print("right:")
    print(npf.gradcheck((softplus_forward, softplus_backward), x))
    print("\nwith a wrong sign:")
    print(npf.gradcheck((softplus_forward, forgetful_backward), x))


if __name__ == "__main__":
    main()
