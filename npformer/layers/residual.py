"""The residual connection: every sub-layer reads the residual stream and adds its output to it.

    post-LN   x ← LN(x + Drop(f(x)))          the norm is on the stream
    pre-LN    x ← x + Drop(f(LN(x)))          the norm is before the sub-layer; the stream itself is not normalised

Both orders have the same steps. x is the stream, h the input of the next sub-layer f, LN the norm at this place:

    enter     h = LN(x)
    join      total = x + Drop(f(h))
              normed = LN(total)            post-LN: x, h ← normed, normed      pre-LN: x, h ← total, normed
    branch    x runs on, h goes into f      post-LN: x and h are one value      pre-LN: two values

k sub-layers have k norms, at k + 1 places: post-LN has none at the entry, pre-LN none after the last sub-layer. Where
there is no norm, LN(x) = x.

Backward. dx is the gradient of the stream, dh the gradient of the sub-layer's input:

    branch    post-LN: one value had two uses, so its two gradients add:    dx ← dx + dh     no dh is left
              pre-LN: two values, a gradient for each:                      dx, dh
    join      post-LN: x was normed:                                        dtotal = LN'ᵀ dx
              pre-LN: total ran on, and went through the norm as well:      dtotal = dx + LN'ᵀ dh
              total was a sum, so both terms receive dtotal:                dx ← dtotal      df = dtotal·keep·s
    enter     pre-LN: x ran on, and went through the norm as well:          dx ← dx + LN'ᵀ dh

f'ᵀ dy is f's backward, the product with its transposed Jacobian: LN'ᵀ is derived in ``functional/layer_norm.py``.
keep·s are dropout's mask and scale. Written without the norm and dropout, a connection is x + f(x), and its transposed
Jacobian is I + f'ᵀ. The product over k connections is a sum over 2ᵏ paths, one of which, the product of the I's,
bypasses every sub-layer (``functional/residual.py``). In pre-LN that path has no norm; in post-LN it passes through
every norm, which rescales it.

A norm is any layer with ``forward(x, context=...) -> (y, cache)`` and ``backward(dy, cache) -> dx``. LayerNorm can
``join``: one kernel computes the sum and the norm (``post_norm``, ``add_norm`` in ``functional``).

Source: He et al. 2016, arXiv:1512.03385; both orders, Xiong et al. 2020, arXiv:2002.04745; the sum over paths, Veit,
Wilber & Belongie 2016, arXiv:1605.06431.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

from npformer.backend import Backend
from npformer.errors import ConfigError
from npformer.layers.call_tree import Context
from npformer.layers.layer import Layer
from npformer.layers.layer_norm import LayerNorm
from npformer.layers.norms import Norm
from npformer.typing import Array

NORM_ORDERS = ("post", "pre")


class JoinCache(NamedTuple):
    """The cache of ``join``, and of ``enter``, which computes no sum."""

    norm: Any  # the norm itself, for backward; None: there is no norm here
    total: Any  # of total = x + Drop(f); None: the norm joined, and its cache is the next field
    normed: Any  # of normed = LN(total); None without a norm
    x: Any = None  # the stream, if an engine asks for it


class ResidualLayer(Layer):
    """A layer of sub-layers with a residual connection each; norm_order is "post" or "pre", dropout the rate of joins.

    ``branches = True`` in a class body declares that after each join_backward the gradient of the stream is not used
    until branch_backward has it. Then an engine may add the sub-layer's to it. Like ``static`` it is not inherited.
    Raises ConfigError for another norm_order.
    """

    def __init__(self, norm_order: str, dropout: float, backend: Backend) -> None:
        super().__init__(backend)
        expect_norm_order(norm_order)
        self.norm_order = norm_order
        self.dropout = dropout

    def places(self, *norms: Norm) -> tuple[Norm | None, ...]:
        """The norm at the entry and at the join after each sub-layer; None where there is no norm."""
        return (None, *norms) if self.norm_order == "post" else (*norms, None)

    def enter(self, x: Array, norm: Norm | None, context: Context) -> tuple[Array, JoinCache | None]:
        """The stream x (B, T, C) to the first sub-layer's input h (B, T, C), and a cache."""
        if norm is None:
            return x, None
        h, normed = norm.forward(x, context=context)  # (B, T, C)
        return h, JoinCache(norm, None, normed)

    def enter_backward(self, dx: Array, dh: Array | None, cache: JoinCache | None) -> Array:
        """dx and dh (B, T, C), as ``branch_backward`` returns them, to the total dx (B, T, C)."""
        return dx if cache is None else dx + cache.norm.backward(dh, cache.normed)

    def branch_backward(self, dx: Array, dh: Array) -> tuple[Array, Array | None]:
        """dx and dh (B, T, C), of the stream and of the sub-layer's input, to (dx + dh, None) or, in pre-LN, (dx, dh).

        The sum is made at once, so that neither term takes up memory while the backward goes on.
        """
        if self.norm_order == "pre":
            return dx, dh
        return dh if (branches := self._branches()) and branches.closed(dx) else dx + dh, None

    def join(
        self, x: Array, f: Array, name: str, norm: Norm | None, context: Context
    ) -> tuple[tuple[Array, Array], JoinCache]:
        """The stream x and the output f of the sub-layer called name to the new x and h, all (B, T, C), and a cache."""
        draw, post = context.draw(f"{name}_dropout", self.dropout), self.norm_order == "post"
        if joins(norm):
            streams, joined = norm.join(x, f, draw, post)
            return streams, JoinCache(norm, None, joined, x if self._branches() else None)
        total, of_total = self.ops.residual.forward(x, f, draw)  # (B, T, C)
        normed, of_normed = (total, None) if norm is None else norm.forward(total, context=context)
        return (normed if post else total, normed), JoinCache(norm, of_total, of_normed)

    def join_backward(self, dx: Array, dh: Array | None, cache: JoinCache) -> tuple[Array, Array]:
        """dx and dh (B, T, C), as ``branch_backward`` returns them, to dx and df (B, T, C).

        dh is None in post-LN, and in pre-LN after the last sub-layer.
        """
        assert dh is None or self.norm_order == "pre", "dh: expected None: in post-LN branch_backward adds it to dx"
        norm, of_total, of_normed, x = cache
        if norm is not None and of_total is None:
            dx, df = norm.join_backward(dx, dh, of_normed)
            if x is not None and df is not dx and (branches := self._branches()):
                branches.open(x, dx)
            return dx, df
        if norm is not None:  # back through the norm
            dx = norm.backward(dx, of_normed) if dh is None else dx + norm.backward(dh, of_normed)
        dx, df = self.ops.residual.backward(dx, of_total)  # back through the sum
        return dx, df

    def _branches(self) -> Any:
        """What adds the gradient of a sub-layer's input to the stream's within the sub-layer's last product, if any."""
        engine, declared = self.backend.engine, vars(type(self)).get("branches") is True
        return engine.branches if engine is not None and declared and self.norm_order == "post" else None


def expect_norm_order(norm_order: str) -> None:
    """Raise ConfigError unless norm_order is "post" or "pre"."""
    if norm_order not in NORM_ORDERS:
        raise ConfigError(f"norm_order: expected 'post' or 'pre', got {norm_order!r}")


def joins(norm: Any) -> TypeGuard[LayerNorm]:
    """Whether norm computes the residual sum and itself in one kernel, by its ``join``.

    A join belongs to the forward and backward of its class: a subclass, or an object, that has its own joins no longer.
    """
    kind: Any = type(norm)
    patched = getattr(norm, "__dict__", {})
    return "forward" not in patched and "backward" not in patched and _joins(kind)


@lru_cache(maxsize=256)
def _joins(kind: type) -> bool:
    owner = next((base for base in kind.__mro__ if {"forward", "backward", "join"} & vars(base).keys()), kind)
    return "join" in vars(owner)
