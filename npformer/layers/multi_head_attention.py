"""Multi-head attention: H attentions side by side, each on its own projection of the tokens.

    Q, K, V = x W_q + b_q, x W_k + b_k, x W_v + b_v      cross-attention: K, V from the memory
    y = merge(attend(split(Q), split(K), split(V))) W_o + b_o

Backward, read bottom-up: through W_o, into the heads, through the mechanism, out of the heads, and

    dx = dQ W_qᵀ + dK W_kᵀ + dV W_vᵀ        x was used three times, its gradients add
       = [dQ dK dV] [W_q W_k W_v]ᵀ          one product, since the three stand side by side in a block
    dW_q = xᵀ dQ,  dW_k = xᵀ dK,  dW_v = xᵀ dV      likewise one product, into the block's columns

In cross-attention K and V come from the memory m: dx = dQ W_qᵀ and dm = dK W_kᵀ + dV W_vᵀ.

What happens inside a head is the mechanism, a part that can be exchanged; so are a rotation of queries
and keys by their positions, and a bias on the scores. This layer knows only how tokens get into heads
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
from npformer.functional import ALL_VISIBLE, AttentionMask, merge_heads, split_heads
from npformer.functional.arrays import namespace
from npformer.layers.cache_stack import CacheStack, NoCache
from npformer.layers.call_tree import AttentionRecorder, RandomKey, draw
from npformer.layers.decode_state import KeyValues
from npformer.layers.initializers import Seed, xavier_uniform
from npformer.layers.layer import Layer, concat_last
from npformer.layers.linear import Linear
from npformer.layers.mechanisms import Mechanism, ScaledDotProduct
from npformer.layers.parameter import Parameter
from npformer.layers.relative_bias import RelativeBias
from npformer.layers.rotary import Rotary
from npformer.typing import Array


class MultiHeadAttention(Layer):
    """Self-attention of x (B, T, C), or cross-attention from x to a memory (B, S, C).

    W_q, W_k, W_v are columns of one block (C, 3C), so that self-attention needs one product. Each
    starts Xavier-uniform, biases at 0. rotation and score_bias are for self-attention: positions of two
    sequences have no distance. Raises ConfigError unless d_model is divisible by num_heads, for a rotation
    of heads of odd width, and for a bias where the mechanism has no scores.
    """

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
        self,
        x: Array,
        memory: Array | None = None,
        *,
        mask: AttentionMask = ALL_VISIBLE,
        key: RandomKey | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Array, CacheStack]:
        """x (B, T, C), attending to itself or to memory (B, S, C), to y (B, T, C)."""
        cache = CacheStack(self)
        q, k, v = (split_heads(part, self.num_heads) for part in self._project(x, memory, cache))  # (B, H, ·, D)
        q, k, bias = self._place(q, k, mask.query_offset, cache, crossing=memory is not None)
        if recorder is not None:
            recorder.record(self.mechanism.weights(q, k, mask, bias))
        weights_draw = draw(key, "dropout", self.dropout)
        heads = cache.keep(self.mechanism.forward(self.ops, q, k, v, mask, weights_draw, bias))  # (B, H, T, D)
        return cache.keep(self.output.forward(merge_heads(heads))), cache

    def backward(self, dy: Array, cache: CacheStack) -> Array | tuple[Array, Array]:
        """dy (B, T, C) to dx (B, T, C); for cross-attention to (dx, dmemory (B, S, C))."""
        dheads = split_heads(self.output.backward(dy, cache.pop()), self.num_heads)
        dq, dk, dv, dbias = self.mechanism.backward(self.ops, dheads, cache.pop())
        dq, dk = self._place_backward(dq, dk, dbias, cache)
        return self._project_backward(merge_heads(dq), merge_heads(dk), merge_heads(dv), cache)

    def start(self, batch: int, max_len: int) -> Any:
        """For decoding: the empty past of batch rows, with room for max_len positions."""
        width = self.output.bias.data.shape[0] // self.num_heads
        return self.mechanism.start(self.backend, batch, self.num_heads, max_len, width)

    def step(self, x: Array, past: Any, mask: AttentionMask) -> Array:
        """For decoding: x (B, n, C), at positions mask.query_offset on, is added to past. Returns y (B, n, C)."""
        q, k, v = (split_heads(part, self.num_heads) for part in self._project(x, None, NoCache(self)))
        q, k, bias = self._place(q, k, mask.query_offset, NoCache(self))
        return self.output(merge_heads(self.mechanism.step(self.ops, q, k, v, past, mask, bias)))

    def project_memory(self, memory: Array) -> KeyValues:
        """For decoding: the keys and values of a memory (B, S, C), which step_memory looks at."""
        width = self.output.bias.data.shape[0]
        k, v = (split_heads(part, self.num_heads) for part in self._keys_values(memory, width, NoCache(self)))
        projected = KeyValues.empty(self.backend, *k.shape)
        projected.write(0, k, v)
        return projected

    def step_memory(self, x: Array, memory: KeyValues, mask: AttentionMask) -> Array:
        """For decoding: x (w·B, n, C) looks at a projected memory of B rows, w rows in turn at each. Returns y.

        They are so many more queries for a row of the memory: none of them hides a key from another.
        """
        rows, width = memory.keys.shape[0], self.output.bias.data.shape[0]
        queries = namespace(x).reshape(x, (rows, -1, x.shape[2]))  # (B, w·n, C)
        q = split_heads(self._queries(queries, width, NoCache(self)), self.num_heads)  # (B, H, w·n, D)
        keys, values = memory.first(memory.values.shape[2])
        heads, _ = self.mechanism.forward(self.ops, q, keys, values, mask, None, None)
        return namespace(x).reshape(self.output(merge_heads(heads)), x.shape)

    def _place(
        self, q: Array, k: Array, offset: int, cache: CacheStack, *, crossing: bool = False
    ) -> tuple[Array, Array, Array | None]:
        """q and k (B, H, ·, D) turned by their positions, from offset on, and the bias (H, T, S), if there is one."""
        if crossing and (self.rotation or self.score_bias):
            raise ConfigError("memory: expected none with a rotation or a score bias, which are for self-attention")
        bias = None
        if self.rotation is not None:
            q, k = (cache.keep(self.rotation.forward(self.ops, x, offset)) for x in (q, k))
        if self.score_bias is not None:
            bias = cache.keep(self.score_bias.forward(q.shape[2], offset + k.shape[2], offset))
        return q, k, bias

    def _place_backward(self, dq: Array, dk: Array, dbias: Array | None, cache: CacheStack) -> tuple[Array, Array]:
        """_place read bottom-up."""
        if self.score_bias is not None:
            self.score_bias.backward(dbias, cache.pop())
        if self.rotation is not None:
            dk = self.rotation.backward(self.ops, dk, cache.pop())
            dq = self.rotation.backward(self.ops, dq, cache.pop())
        return dq, dk

    def _project(self, x: Array, memory: Array | None, cache: CacheStack) -> tuple[Array, Array, Array]:
        """Queries (B, T, C), keys and values (B, S, C)."""
        width = self.output.bias.data.shape[0]
        expect_tokens("x", "T", x, width)
        if memory is None:
            qkv = cache.keep(self.ops.linear.forward(x, self.weight.data, self.bias.data))  # (B, T, 3C)
            return qkv[..., :width], qkv[..., width : 2 * width], qkv[..., 2 * width :]
        expect_tokens("memory", "S", memory, width)
        return self._queries(x, width, cache), *self._keys_values(memory, width, cache)

    def _queries(self, x: Array, width: int, cache: CacheStack) -> Array:
        """Queries (B, T, C) alone."""
        weight, bias = self.weight.data[:, :width], self.bias.data[:width]
        return cache.keep(self.ops.linear.forward(x, weight, bias))

    def _keys_values(self, memory: Array, width: int, cache: CacheStack) -> tuple[Array, Array]:
        """Keys and values (B, S, C) alone."""
        weight, bias = self.weight.data[:, width:], self.bias.data[width:]
        kv = cache.keep(self.ops.linear.forward(memory, weight, bias))  # (B, S, 2C)
        return kv[..., :width], kv[..., width:]

    def _project_backward(self, dq: Array, dk: Array, dv: Array, cache: CacheStack) -> Array | tuple[Array, Array]:
        """_project read bottom-up: one product was made for self-attention, two for cross-attention."""
        width = dq.shape[-1]
        dweight, dbias, linear = self.weight.grad, self.bias.grad, self.ops.linear
        if len(cache) == 1:
            return linear.backward(concat_last(dq, dk, dv), cache.pop(), into=(dweight, dbias))
        dkv = concat_last(dk, dv)
        dmemory = linear.backward(dkv, cache.pop(), into=(dweight[:, width:], dbias[width:]))
        dx = linear.backward(dq, cache.pop(), into=(dweight[:, :width], dbias[:width]))
        return dx, dmemory


def expect_divisible(d_model: int, num_heads: int) -> None:
    """Raise ConfigError unless d_model can be split into num_heads heads."""
    if num_heads < 1 or d_model % num_heads:
        fits = [h for h in range(1, d_model + 1) if d_model % h == 0]
        nearest = min(fits, key=lambda h: abs(h - num_heads))
        raise ConfigError(
            f"num_heads: expected a divisor of d_model={d_model}, got {num_heads}; the nearest is {nearest}"
        )


def _expect_parts(mechanism: Mechanism, rotation: Rotary | None, score_bias: RelativeBias | None, width: int) -> None:
    """Raise ConfigError for parts that do not go together; width is D."""
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
