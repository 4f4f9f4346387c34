"""Derivatives without a derivation: two independent witnesses against the analytic gradient.

Complex step. For an analytic function, f(x + ih) = f(x) + ih·f'(x) + O(h²), so

    f'(x) ≈ Im f(x + ih)/h

Nothing is subtracted, so h = 1e-30 loses no digits, and a kink of ReLU is never crossed: the real
part does not move. Source: Squire & Trapp 1998, SIAM Review 40.

Central differences. f'(x) ≈ (f(x + h) − f(x − h))/2h, off by O(h²) and by rounding of about 1e-16/h:
h = 1e-5 balances the two in float64. Evaluated at h/2, and, unless the complex step says the same, at h:
where the two disagree there is a kink between the points, or noise, and the witness cannot tell.

Both look at L = Σ r·y for a random upstream gradient r. Differences are taken of y before they
are summed, so outputs that do not move add no noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npformer.errors import DTypeError
from npformer.proof.subject import Subject

Host = np.ndarray[Any, Any]

COMPLEX_H = 1e-30
CENTRAL_H = 1e-5
#: Of a derivative: so near to each other, the two witnesses say the same (half of what a check allows, see judge.py).
SAME = 5e-8


class Witness(NamedTuple):
    """What the oracles say of one tensor. Element-wise: arrays of its shape; by direction: of shape (k,)."""

    by_complex: Host | None  # None: the function does not take complex numbers
    by_central: Host  # at h/2
    by_central_wide: Host  # at h; where the complex step says the same as by_central, that once more

    @property
    def truth(self) -> Host:
        """The better of the two witnesses."""
        return self.by_central if self.by_complex is None else self.by_complex


def every_element(
    subject: Subject, name: str, upstream: tuple[Host, ...], use_complex: bool, same: float = SAME
) -> Witness:
    """The derivative of L with respect to each element of a tensor; same as in SAME."""
    x = subject.tensors[name]
    results: list[Host] = [np.zeros(x.shape) for _ in range(3)]
    for index in np.ndindex(x.shape):
        direction = np.zeros(x.shape)
        direction[index] = 1.0
        for result, value in zip(results, _along(subject, name, direction, upstream, use_complex, same), strict=True):
            result[index] = value
    return Witness(results[0] if use_complex else None, results[1], results[2])


def along_directions(
    subject: Subject,
    name: str,
    directions: list[Host],
    upstream: tuple[Host, ...],
    use_complex: bool,
    same: float = SAME,
) -> Witness:
    """The derivative of L along each direction in a tensor, (k,) for k directions of the tensor's shape."""
    found = np.array([_along(subject, name, d, upstream, use_complex, same) for d in directions]).T
    return Witness(found[0] if use_complex else None, found[1], found[2])


def _along(
    subject: Subject, name: str, direction: Host, upstream: tuple[Host, ...], use_complex: bool, same: float
) -> tuple[float, float, float]:
    """(complex step, central difference at h/2, at h) along one direction."""
    x = subject.tensors[name]
    near, by_complex = _central(subject, name, direction, upstream, CENTRAL_H / 2), 0.0
    if use_complex:
        moved = _complex_outputs(subject, name, x + 1j * COMPLEX_H * direction)
        by_complex = sum(float(np.sum(r * y.imag)) for r, y in zip(upstream, moved, strict=True)) / COMPLEX_H
        if abs(near - by_complex) <= same * abs(by_complex):
            return by_complex, near, near
    return by_complex, near, _central(subject, name, direction, upstream, CENTRAL_H)


def _complex_outputs(subject: Subject, name: str, moved: Host) -> tuple[Host, ...]:
    try:
        return subject.outputs({name: moved})
    except (TypeError, np.exceptions.ComplexWarning) as error:
        raise DTypeError(
            f"forward: expected to be run on complex numbers, for the complex step, got: {error}; "
            "complex_step=False leaves that witness out"
        ) from error


def _central(subject: Subject, name: str, direction: Host, upstream: tuple[Host, ...], h: float) -> float:
    x = subject.tensors[name]
    above, below = (subject.outputs({name: x + step * direction}) for step in (h, -h))
    moves = zip(upstream, above, below, strict=True)
    return sum(float(np.sum(r * (a - b))) for r, a, b in moves) / (2 * h)
