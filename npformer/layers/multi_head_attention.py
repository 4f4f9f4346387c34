"""Multi-head attention: H attentions in parallel, each on its own projection of the tokens.

    1   Q = x W_q + b_q                             (B, T, C)
        K, V = memory W_k + b_k, memory W_v + b_v   (B, S, C) twice; in self-attention memory is x
    2   q, k, v = split(Q), split(K), split(V)      (B, H, T, D), (B, H, S, D) twice
    3   q, k = rotate(q), rotate(k)                 where there is a rotation; and bias (H, T, S), where there is one
    4   o = attend(q, k, v, bias)                   (B, H, T, D), each head for itself
    5   O = merge(o)                                (B, T, C)
    6   y = O W_o + b_o                             (B, T, C)

Backward, the steps counted down. Sums over tokens are over B and T, or B and S:

    6   dO = dy W_oᵀ      dW_o = Σ_tokens Oᵀ dy      db_o = Σ_tokens dy
    5   do = split(dO)                      merge moves numbers and changes none, so its backward moves them back
    4   dq, dk, dv, dbias from do           the mechanism's own backward: softmax(q kᵀ/√D) v in attention.py
    3   dq = rotateᵀ(dq), dk = rotateᵀ(dk)  a rotation's transpose turns back; dbias goes to the bias's table
    2   dQ, dK, dV = merge(dq), merge(dk), merge(dv)
    1   dW_q = Σ xᵀ dQ      dW_k = Σ memoryᵀ dK      dW_v = Σ memoryᵀ dV      db_q, db_k, db_v = Σ dQ, Σ dK, Σ dV
        dx = dQ W_qᵀ        dmemory = dK W_kᵀ + dV W_vᵀ      memory was used twice: its two gradients add

In self-attention memory is x, used three times:

    dx = dQ W_qᵀ + dK W_kᵀ + dV W_vᵀ = [dQ dK dV] [W_q W_k W_v]ᵀ
    [dW_q dW_k dW_v] = xᵀ [dQ dK dV]

so with the three matrices side by side in one block (C, 3C), one product in the forward and two in the backward serve
all.

Why the heads need no sum of their own: with W_o cut into H groups of D rows, y = Σ_h o_h W_o⁽ʰ⁾ + b_o. Thus
do_h = dy W_o⁽ʰ⁾ᵀ, the h-th group of D columns of dy W_oᵀ, which is what split takes. Likewise the h-th group of dQ's
columns is dq_h, since head h alone read those columns of Q.

The key bias b_k has gradient 0, whatever it is, if the mechanism is softmax and nothing is rotated: it adds q·b_k/√D to
every score of a query, and softmax does not see a shift of its row. A test with db_k alone would prove nothing.

What happens inside a head is the mechanism, a part that can be exchanged; so are a rotation of queries
and keys by their positions (RoPE), and a bias on the scores (T5). This layer knows only how tokens get into heads
and out again.

Decoding computes the same a few tokens at a time: ``step`` lets new tokens attend to themselves and
to what the mechanism kept of those before them, ``step_memory`` to a memory projected once.

Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.errors import ConfigError, ShapeError
from npformer.functional import AttentionMask, merge_heads, split_heads
from npformer.functional.arrays import namespace
from npformer.layers.cache_stack import CacheStack
from npformer.layers.call_tree import INFERENCE, Context
from npformer.layers.decode_state import KeyValues
from npformer.layers.initializers import Seed, xavier_uniform
from npformer.layers.layer import Layer, concat_last
from npformer.layers.linear import Linear
from npformer.layers.mechanisms import Mechanism, ScaledDotProduct
from npformer.layers.parameter import Parameter
from npformer.layers.positions import RelativeBias, Rotary
from npformer.typing import Array


class MultiHeadAttention(Layer):
    """Self-attention of x (B, T, C), or cross-attention from x to a memory (B, S, C).

    W_q, W_k, W_v are columns of one block (C, 3C), so that self-attention needs one product. Each
    starts Xavier-uniform, biases at 0. rotation and score_bias are for self-attention only: positions in two
    sequences have no distance. Raises ConfigError unless d_model is divisible by num_heads, for a rotation
    of heads of odd width, and for a bias with a mechanism that has no scores.
    """

    static = True

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        mechanism: Mechanism | None = None,
        rotation: Rotary | None = None,
        score_bias: RelativeBias | None = None,
        dropout: float = 0.0,
        backend: Backend,
        seed: Seed = 0,
    ) -> None:
        super().__init__(backend)
        expect_divisible(d_model, num_heads)
        self.num_heads = num_heads
        self.mechanism = mechanism or ScaledDotProduct()
        self.rotation = rotation
        self.score_bias = score_bias
        _expect_parts(self.mechanism, rotation, score_bias, d_model // num_heads)
        self.dropout = dropout
        rng = np.random.default_rng(seed)
        columns = {name: slice(i * d_model, (i + 1) * d_model) for i, name in enumerate(("query", "key", "value"))}
        block = np.concatenate([xavier_uniform(rng, d_model, d_model) for _ in columns], axis=1)
        self.weight = Parameter(
            "qkv.weight", backend.array(block), {f"{name}.weight": part for name, part in columns.items()}
        )
        self.bias = Parameter(
            "qkv.bias",
            backend.array(np.zeros(3 * d_model)),
            {f"{name}.bias": part for name, part in columns.items()},
        )
        self.output = Linear(d_model, d_model, backend=backend, seed=rng)

    def forward(
        self, x: Array, memory: Array | None = None, *, context: Context = INFERENCE
    ) -> tuple[Array, CacheStack]:
        """x (B, T, C), attending to itself or to memory (B, S, C), to y (B, T, C).

        context.mask says which keys of x are visible, memory_mask which of a memory.
        """
        if memory is not None and (self.rotation or self.score_bias):
            raise ConfigError("memory: expected none with a rotation or a score bias, which are for self-attention")
        cache, mask = CacheStack(self), context.mask if memory is None else context.memory_mask
        qkv = cache.keep(self._project(x, memory))  # 1. Q (B, T, C), K and V (B, S, C)
        q, k, v = [split_heads(part, self.num_heads) for part in qkv]  # 2. (B, H, ·, D)
        q, k = cache.keep(self._rotate(q, k, mask.query_offset))  # 3. as before
        bias = cache.keep(self._bias(q, k, mask.query_offset))  # 3. (H, T, S)
        if context.recorder is not None:
            context.recorder.record(self.mechanism.weights(q, k, mask, bias))
        dropped = context.draw("dropout", self.dropout)
        o = cache.keep(self.mechanism.forward(self.ops, q, k, v, mask, dropped, bias))  # 4. (B, H, T, D)
        return cache.keep(self.output.forward(merge_heads(o))), cache  # 5. and 6. (B, T, C)

    def backward(self, dy: Array, cache: CacheStack) -> Array | tuple[Array, Array]:
        """dy (B, T, C) to dx (B, T, C); for cross-attention to (dx, dmemory (B, S, C))."""
        do = split_heads(self.output.backward(dy, cache.pop()), self.num_heads)  # back through 6 and 5: (B, H, T, D)
        dq, dk, dv, dbias = self.mechanism.backward(self.ops, do, cache.pop())  # back through 4: (B, H, ·, D)
        self._bias_backward(dbias, cache.pop())  # back through 3
        dq, dk = self._rotate_backward(dq, dk, cache.pop())  # back through 3
        dq, dk, dv = [merge_heads(part) for part in (dq, dk, dv)]  # back through 2: (B, T, C), (B, S, C) twice
        return self._project_backward(dq, dk, dv, *cache.pop())  # back through 1

    def start(self, batch: int, max_len: int) -> Any:
        """For decoding: an empty past for batch rows, with room for max_len positions."""
        return self.mechanism.start(self.backend, batch, self.num_heads, max_len, self._width // self.num_heads)

    def step(self, x: Array, past: Any, mask: AttentionMask) -> Array:
        """For decoding: add x (B, n, C), from position mask.query_offset on, to past. Returns y (B, n, C)."""
        q, k, v = [split_heads(part, self.num_heads) for part in self._project(x, None)[0]]
        (q, k), _ = self._rotate(q, k, mask.query_offset)
        bias, _ = self._bias(q, k, mask.query_offset)
        return self.output(merge_heads(self.mechanism.step(self.ops, q, k, v, past, mask, bias)))

    def project_memory(self, memory: Array) -> KeyValues:
        """For decoding: the keys and values of a memory (B, S, C), for step_memory."""
        k, v = [split_heads(part, self.num_heads) for part in self._keys_values(memory)[0]]
        projected = KeyValues.empty(self.backend, *k.shape)
        projected.write(0, k, v)
        return projected

    def step_memory(self, x: Array, memory: KeyValues, mask: AttentionMask) -> Array:
        """For decoding: x (w·B, n, C) attends to a projected memory of B rows, w consecutive rows to each. Returns y.

        The w rows become more queries for one row of the memory, since the mask does not depend on the query.
        """
        queries = namespace(x).reshape(x, (memory.keys.shape[0], -1, x.shape[2]))  # (B, w·n, C)
        q = split_heads(self._queries(queries)[0], self.num_heads)  # (B, H, w·n, D)
        keys, values = memory.first(memory.values.shape[2])
        heads, _ = self.mechanism.forward(self.ops, q, keys, values, mask, None, None)
        return namespace(x).reshape(self.output(merge_heads(heads)), x.shape)

    def _rotate(self, q: Array, k: Array, offset: int) -> tuple[tuple[Array, Array], Any]:
        """q and k (B, H, ·, D) rotated by their positions, from offset on, and the caches of both, if they rotate."""
        if self.rotation is None:
            return (q, k), None
        q, of_q = self.rotation.forward(self.ops, q, offset)
        k, of_k = self.rotation.forward(self.ops, k, offset)
        return (q, k), (of_q, of_k)

    def _rotate_backward(self, dq: Array, dk: Array, caches: Any) -> tuple[Array, Array]:
        """dq and dk (B, H, ·, D), rotated back."""
        if self.rotation is None:
            return dq, dk
        of_q, of_k = caches
        dk = self.rotation.backward(self.ops, dk, of_k)
        return self.rotation.backward(self.ops, dq, of_q), dk

    def _bias(self, q: Array, k: Array, offset: int) -> tuple[Array | None, Any]:
        """The bias (H, T, S) on the scores of q and k, if there is one."""
        if self.score_bias is None:
            return None, None
        return self.score_bias.forward(q.shape[2], offset + k.shape[2], offset)

    def _bias_backward(self, dbias: Array | None, cache: Any) -> None:
        if self.score_bias is not None:
            self.score_bias.backward(dbias, cache)

    @property
    def _width(self) -> int:
        return int(self.output.bias.data.shape[0])  # C

    def _project(self, x: Array, memory: Array | None) -> tuple[tuple[Array, Array, Array], tuple[Any, Any]]:
        """(Q (B, T, C), K and V (B, S, C)) and the caches: of one product and None, or with a memory of two."""
        width = self._width
        expect_tokens("x", "T", x, width)
        if memory is None:
            qkv, cache = self.ops.linear.forward(x, self.weight.data, self.bias.data)  # (B, T, 3C)
            return (qkv[..., :width], qkv[..., width : 2 * width], qkv[..., 2 * width :]), (cache, None)
        expect_tokens("memory", "S", memory, width)
        q, of_x = self._queries(x)
        kv, of_memory = self._keys_values(memory)
        return (q, *kv), (of_x, of_memory)

    def _queries(self, x: Array) -> tuple[Array, Any]:
        """Q (B, T, C) alone, and the cache."""
        columns = slice(self._width)
        return self.ops.linear.forward(x, self.weight.data[:, columns], self.bias.data[columns])

    def _keys_values(self, memory: Array) -> tuple[tuple[Array, Array], Any]:
        """(K, V), each (B, S, C), and the cache."""
        width = self._width
        kv, cache = self.ops.linear.forward(memory, self.weight.data[:, width:], self.bias.data[width:])  # (B, S, 2C)
        return (kv[..., :width], kv[..., width:]), cache

    def _project_backward(
        self, dq: Array, dk: Array, dv: Array, of_x: Any, of_memory: Any
    ) -> Array | tuple[Array, Array]:
        """dQ (B, T, C), dK and dV (B, S, C) to dx (B, T, C), or with a memory to (dx, dmemory (B, S, C))."""
        width = dq.shape[-1]
        dweight, dbias, linear = self.weight.grad, self.bias.grad, self.ops.linear
        if of_memory is None:  # [dQ dK dV] (B, T, 3C), one product for the three uses of x
            return linear.backward(concat_last(dq, dk, dv), of_x, into=(dweight, dbias))
        dkv = concat_last(dk, dv)  # (B, S, 2C), one product for the two uses of the memory
        dmemory = linear.backward(dkv, of_memory, into=(dweight[:, width:], dbias[width:]))
        return linear.backward(dq, of_x, into=(dweight[:, :width], dbias[:width])), dmemory


def expect_divisible(d_model: int, num_heads: int) -> None:
    """Raise ConfigError unless d_model can be split into num_heads heads."""
    if num_heads < 1 or d_model % num_heads:
        fits = [h for h in range(1, d_model + 1) if d_model % h == 0]
        nearest = min(fits, key=lambda h: abs(h - num_heads))
        raise ConfigError(
            f"num_heads: expected a divisor of d_model={d_model}, got {num_heads}; the nearest is {nearest}"
        )


def _expect_parts(mechanism: Mechanism, rotation: Rotary | None, score_bias: RelativeBias | None, width: int) -> None:
    """Raise ConfigError for parts that cannot be combined; width is D."""
    if score_bias is not None and not mechanism.takes_bias:
        raise ConfigError(
            f"score_bias: expected none with {type(mechanism).__name__}, which has no full matrix of scores to add it "
            "to; use rotary positions, or full attention"
        )
    if rotation is not None and width % 2:
        raise ConfigError(f"rotation: expected heads of even width, since columns turn in pairs, got D={width}")


def expect_tokens(name: str, length: str, x: Array, width: int) -> None:
    """Raise ShapeError unless x is (B, T, C) with C = width; length is the letter of its time, T or S."""
    if x.ndim != 3 or x.shape[-1] != width:
        raise ShapeError(f"{name}: expected (B, {length}, d_model={width}), got {tuple(x.shape)}")
