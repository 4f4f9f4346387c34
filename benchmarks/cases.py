"""Every operation at the shapes that it has in a model: its inputs, and the sizes of its outputs."""

from typing import Any, NamedTuple

import numpy as np

from npformer.check.cases import op_samples
from npformer.check.cases.case import UsualSizes
from npformer.functional import OPERATIONS, Draw, split_heads
from npformer.models.presets import Preset
from npformer.typing import HostArray

RATE = 0.1  # dropout rate of every operation with dropout
EPS = 1e-5
BUCKETS, FARTHEST = 32, 128  # of relative positions, as T5 has them
KERNEL = 3  # width of a convolution, in tokens
DRAW = Draw(seed=0, step=1, micro=0, site=1, rate=RATE)


class Case(NamedTuple):
    """One call of an operation's forward: ``forward(*arrays, *options)``."""

    arrays: tuple[HostArray, ...]
    options: tuple[Any, ...]
    parameters: int  # how many of the arrays, the last ones, are parameters

    def dy(self, y):
        """The upstream gradient: random numbers in the shape of y, an array or a tuple of arrays; 1.0 for a loss.

        Their memory layout is the first input's.
        """
        if isinstance(y, tuple):
            return tuple(map(self.dy, y))
        if not y.shape:
            return 1.0
        made = np.empty_like(self.arrays[0], dtype=np.float32, shape=tuple(y.shape))  # in the order of its axes
        made[...] = np.random.default_rng(1).standard_normal(made.shape, dtype=np.float32)
        return made


def window(size: Preset):
    """The window of local attention: an eighth of the length."""
    return max(1, size.length // 8)


def case(op, size: Preset):
    """The call of the operation of that name (a field of npformer.backend.Ops) in a model of that size.

    Its usual sample inputs with dropout 0.1; sequences without padding, with their masks.
    """
    sample = getattr(op_samples, op)(_Sizes(op, size))
    arrays = tuple(x for x in sample if isinstance(x, np.ndarray))
    return Case(arrays, sample[len(arrays) :], OPERATIONS[op].parameters)


class _Sizes(UsualSizes):
    """``Sizes`` of a model. Numbers are random, so that no branch and no value is favoured."""

    def __init__(self, op, size: Preset):
        super().__init__(np.random.default_rng(0))
        c = size.d_model
        letters = {
            "B": size.batch, "T": size.length, "S": size.length, "C": c, "H": size.num_heads, "D": c // size.num_heads,
            "F": size.d_ff, "V": size.vocab_size, "I": c, "K": BUCKETS // 2 if op == "relative_bias" else KERNEL,
            "O": 3 * c if op == "linear" else c,  # the linear map to queries, keys and values
        }  # fmt: skip
        vars(self).update(letters)
        self._parts = []  # the product that made queries, keys and values

    def normal(self, *shape):
        return self._rng.standard_normal(shape, dtype=np.float32)

    def heads(self, length, width):
        """(B, H, T, D): columns of a product's output, as attention receives them."""
        if not self._parts:
            qkv = self.normal(self.B, length, 3 * self.C)
            self._parts = [split_heads(part, self.H) for part in np.split(qkv, 3, axis=-1)]
        return self._parts.pop(0)

    def ids(self, below):
        return self._rng.integers(1, below, (self.B, self.T))

    def visible(self, *shape, least=0):
        return np.ones(shape, dtype=bool)

    def draw(self):
        return DRAW
