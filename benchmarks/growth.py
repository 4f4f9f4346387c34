"""How the time and memory of a training step grow, measured and in theory.

The cost as a function of one dimension, the others fixed, is no pure power: the T of the linear maps and
the T² of attention add up. So the expected exponent is fitted in the same way as the measured one, to the counted
cost of the same points. Time is counted in operations of matrix products (``products.step_flop``). Memory is
counted in what a step has to keep, in float32, for threads that share a batch:

    parameters      (4 + threads − 1)·P      values, gradients, Adam's two moments; gradients of each further thread
    encoder layer   B·T·(8C + F + H·T)       q, k, v, heads; x̂ and y of two norms; the hidden F; attention weights
    decoder layer   B·T·(14C + F + 2H·T)     one attention and one norm more
    both ends       B·T·(2C + 2V)            embedded source and target; logits and their gradient

Operations outside of matrix products are not counted. Softmax and dropout of T² attention weights take about as
long as the products with them, so time may grow with T faster than the products do, up to T².

Layers that recompute keep only their input, C; the activations of one layer at a time exist in full.
"""

import math
from statistics import linear_regression
from typing import NamedTuple

from benchmarks.products import linears
from npformer.models.presets import Preset

NEAR = 0.15  # exponents that differ by less count as equal: the cost of a doubling differs by less than 11 %
BYTES = 4  # of a float32


class Growth(NamedTuple):
    """The measured exponent of a cost, and the expected one."""

    measured: float
    counted: float
    limit: float  # exponent of the fastest-growing term

    @property
    def verdict(self):
        """The verdict in words; upper case for a cost that grows faster than its fastest-growing term."""
        if self.measured > max(self.counted, self.limit) + NEAR:
            return "FASTER THAN IT SHOULD"
        if self.measured > self.counted + NEAR:
            return "as it should; the fastest-growing term costs more"
        return "as it should" if self.measured >= self.counted - NEAR else "more slowly than counted"


def growth(values, measured, counted, limit):
    """The growth of a cost over the upper half of rising values, where constant terms weigh least."""
    upper = slice((len(values) - 1) // 2, None)
    return Growth(exponent(values[upper], measured[upper]), exponent(values[upper], counted[upper]), limit)


def exponent(x, y):
    """The slope of log y over log x, by least squares: p if y = a·xᵖ. All are > 0, x at least two values."""
    return linear_regression([math.log(each) for each in x], [math.log(each) for each in y]).slope


def parameters(size: Preset):
    """P, the number of parameters of the model."""
    maps = sum(linear.copies * (linear.c_in + 1) * linear.c_out for linear in linears(size))
    norms = 5 * size.num_layers * 2 * size.d_model
    return maps + norms + 2 * size.vocab_size * size.d_model


def kept_bytes(size: Preset, threads, recompute=False):
    """Bytes that a training step has to keep; see the module's docstring."""
    c, f, weights = size.d_model, size.d_ff, size.num_heads * size.length
    encoder_layer, decoder_layer = 8 * c + f + weights, 14 * c + f + 2 * weights
    layers = size.num_layers * (encoder_layer + decoder_layer)
    if recompute:
        layers = 2 * size.num_layers * c + decoder_layer
    tokens = size.batch * size.length
    return BYTES * ((3 + threads) * parameters(size) + tokens * (layers + 2 * c + 2 * size.vocab_size))
