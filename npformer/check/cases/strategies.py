"""Hypothesis strategies for gradient checks: shapes at critical sizes, and numbers that reveal mistakes.

    @given(strategies.shapes(min_dims=2, max_dims=3).flatmap(strategies.arrays))
    def test_softmax(x): npf.gradcheck((forward, backward), x).raise_if_failed()

They add to ``hypothesis.extra.numpy`` what a gradient check needs: a
budget of elements, sides just below and above the widths of vectors and blocks, and arrays in which no two
numbers are near each other or near 0, where max, sort and ReLU have kinks. Hypothesis is part of the extra
``npformer[hypothesis]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npformer.errors import ConfigError, ShapeError
from npformer.extras import install
from npformer.typing import Function, HostArray, Shape

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


#: Sides drawn more often: the smallest that can reveal a transposition, and the neighbours of 32 and 128.
SIDES = (2, 3, 31, 32, 33, 127, 128, 129)
#: The most elements that a check examines one by one.
ELEMENTS = 2000
#: The least and the largest absolute value in ``arrays``.
NEAREST, FURTHEST = 0.1, 2.0


def shapes(
    min_dims: int = 1,
    max_dims: int = 4,
    *,
    sides: Sequence[int] = SIDES,
    min_side: int = 2,
    max_side: int = 129,
    max_elements: int = ELEMENTS,
) -> SearchStrategy[Shape]:
    """Shapes of min_dims to max_dims sides, three in four of which are one of sides; at most max_elements elements.

    min_side is 2, since a check refuses sums over one element. Raises ConfigError where no shape fits.
    """
    st = _hypothesis()
    if not (0 <= min_dims <= max_dims and 1 <= min_side <= max_side and min_side**max_dims <= max_elements):
        raise ConfigError(
            "shapes: expected 0 <= min_dims <= max_dims, 1 <= min_side <= max_side and min_side**max_dims <= "
            f"max_elements, got min_dims={min_dims}, max_dims={max_dims}, min_side={min_side}, max_side={max_side}, "
            f"max_elements={max_elements}"
        )

    def drawn(draw: Function) -> Shape:
        shape: list[int] = []
        count = draw(st.integers(min_dims, max_dims))
        for left in reversed(range(count)):
            largest = min(max_side, max_elements // (math.prod(shape) * min_side**left))
            liked = [side for side in sides if min_side <= side <= largest]
            anything = st.integers(min_side, largest)
            shape.append(draw(st.one_of(*3 * [st.sampled_from(liked)], anything) if liked else anything))
        return tuple(draw(st.permutations(shape)))  # the first has the most room

    return st.composite(drawn)()


def arrays(shape: int | Shape | SearchStrategy[Shape], dtype: str = "float64") -> SearchStrategy[HostArray]:
    """Arrays of a shape, or of shapes from a strategy, whose numbers lie between 0.1 and 2 on either side of 0.

    Any two of n numbers are at least 1.9/n apart, so that central differences cross no tie of max or sort. They shrink
    by their shape, not by their numbers: constant arrays prove nothing.
    """
    st = _hypothesis()
    fixed = (shape,) if isinstance(shape, int) else shape
    if not isinstance(fixed, tuple):
        return fixed.flatmap(lambda sides: arrays(sides, dtype))
    if any(side < 1 for side in fixed):
        raise ShapeError(f"arrays: expected sides of at least 1, got {fixed}: an empty check proves nothing")
    return st.integers(0, 2**32 - 1).map(lambda seed: generic(fixed, seed).astype(dtype))


def generic(shape: Shape, seed: int) -> HostArray:
    """The array of a shape for a seed; see ``arrays``."""
    rng = np.random.default_rng(seed)
    n = math.prod(shape)
    room = FURTHEST - NEAREST
    at = (np.arange(n) + rng.uniform(0.25, 0.75, size=n)) * 2 * room / n  # one in the middle half of each n-th part
    numbers = np.where(at < room, at - FURTHEST, at - room + NEAREST)
    return np.asarray(rng.permutation(numbers).reshape(shape))


def _hypothesis() -> Any:
    """The package's strategies. Raises ConfigError, with the remedy, where it is not installed."""
    try:
        import hypothesis.strategies
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"strategies: expected Hypothesis to be installed, got: {error}; {install('hypothesis')}"
        ) from error
    return hypothesis.strategies
