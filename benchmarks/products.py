"""Counts the floating-point operations of one training step's matrix products.

A product (M, K)·(K, N) takes 2·M·K·N operations. Each linear map y = x W makes three in a step, all
equally large: y = x W, dx = dy Wᵀ, dW = xᵀ dy. Each attention makes two forward (Q Kᵀ and weights·V) and
four backward, 2·B·T·S·C operations each; the half that a causal mask hides is not subtracted.
Looking up an embedding's row, and adding to it, is no product.
"""

from typing import NamedTuple

from npformer.models.presets import Preset


class Linear(NamedTuple):
    """One shape of linear map: rows × c_in to rows × c_out."""

    rows: int  # N = B·T
    c_in: int
    c_out: int
    copies: int  # number of such maps in the model

    @property
    def flop(self):
        """Operations of one of its three products."""
        return 2 * self.rows * self.c_in * self.c_out


def linears(size: Preset):
    """The linear maps of a model, each shape once."""
    rows, c, f, layers = size.batch * size.length, size.d_model, size.d_ff, size.num_layers
    return [
        Linear(rows, c, 3 * c, 2 * layers),  # queries, keys, values of self-attention
        Linear(rows, c, c, 4 * layers),  # queries of cross-attention; outputs of all
        Linear(rows, c, 2 * c, layers),  # keys, values of cross-attention
        Linear(rows, c, f, 2 * layers),  # feed-forward, up
        Linear(rows, f, c, 2 * layers),  # feed-forward, down
        Linear(rows, c, size.vocab_size, 1),  # generator
    ]


def linear_flop(size: Preset):
    """Operations of all linear maps in one training step, forward and backward."""
    return 3 * sum(linear.copies * linear.flop for linear in linears(size))


def attention_flop(size: Preset):
    """Operations of all attention products in one training step, forward and backward."""
    attentions = 3 * size.num_layers
    return attentions * 6 * 2 * size.batch * size.length * size.length * size.d_model


def step_flop(size: Preset):
    """Operations of all matrix products in one training step."""
    return linear_flop(size) + attention_flop(size)
