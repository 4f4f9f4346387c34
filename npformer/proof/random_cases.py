"""Random draws of shapes, options and numbers: a right gradient must never be called wrong.

Every draw is a Case like those of the catalogue, made from a seed, with small sizes, most between 2 and 6 (2 or 3
heads, and as many sequences for them), masks that hide some or all keys of a sequence, repeated tokens,
targets that do not count, dropout or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from npformer import functional
from npformer.backend import Ops
from npformer.functional import AttentionMask, Draw
from npformer.layers import RandomKey
from npformer.models import Transformer, TransformerConfig
from npformer.proof.catalogue import Case, shaken

Generator = np.random.Generator
OPS = tuple(field.name for field in fields(Ops))


def random_cases(per_op: int, models: int, seed: int = 0) -> Iterator[Case]:
    """per_op draws of every operation, and so many of the Transformer."""
    for op in OPS:
        for number in range(per_op):
            yield random_op_case(op, seed, number)
    for number in range(models):
        yield random_model_case(seed, number)


def random_op_case(op: str, seed: int, number: int) -> Case:
    """Draw number of an operation; drawn again while all of its output is 0, where nothing could be proven."""
    rng = np.random.default_rng([seed, OPS.index(op), number])
    inputs = _INPUTS[op](rng)
    while not np.any(getattr(functional, f"{op}_forward")(*inputs)[0]):
        inputs = _INPUTS[op](rng)
    name = f"{op}: draw {number} of seed {seed}"
    return Case("op", name, lambda backend: getattr(backend.ops, op), inputs, length_one=True)


def random_model_case(seed: int, number: int) -> Case:
    """Draw number of a small Transformer."""
    rng = np.random.default_rng([seed, len(OPS), number])
    heads, vocabulary = int(rng.integers(1, 4)), int(rng.integers(5, 9))
    config = TransformerConfig(
        vocabulary,
        vocabulary,
        d_model=heads * int(rng.integers(2, 5)),
        num_heads=heads,
        num_encoder_layers=int(rng.integers(1, 3)),
        num_decoder_layers=int(rng.integers(1, 3)),
        d_ff=int(rng.integers(2, 9)),
        max_seq_len=8,
        dropout=float(rng.choice([0.0, 0.1, 0.5])),
        norm_order=rng.choice(["post", "pre"]),
        final_norm=[None, True, False][rng.integers(3)],
        activation=rng.choice(["relu", "gelu"]),
        positions=rng.choice(["sinusoidal", "learned"]),
        scale_embedding=bool(rng.integers(2)),
        tie_embeddings=bool(rng.integers(2)),
    )
    batch = int(rng.integers(2, 5))
    inputs = (_tokens(rng, batch, vocabulary), _tokens(rng, batch, vocabulary))
    key = RandomKey(seed, number) if rng.integers(2) else None
    return Case(
        "model",
        f"Transformer: draw {number} of seed {seed}",
        lambda backend: shaken(Transformer(config, backend=backend)),
        inputs,
        {"key": key},
        along_directions=True,
    )


def _normal(rng: Generator, *shape: int) -> np.ndarray[Any, Any]:
    """Random numbers, in half of the draws in memory with gaps."""
    if not shape or rng.integers(2):
        return np.asarray(rng.normal(size=shape))
    return np.asarray(rng.normal(size=(*shape[:-1], 2 * shape[-1])))[..., ::2]


def _lengths(rng: Generator, count: int) -> list[int]:
    return [int(n) for n in rng.integers(2, 7, size=count)]


def _heads(rng: Generator) -> list[int]:
    """How many sequences and heads: each is computed for itself, so that few show what many would."""
    return [int(n) for n in rng.integers(2, 4, size=2)]


def _draw(rng: Generator) -> Draw | None:
    seed, step = (int(n) for n in rng.integers(0, 2**63, size=2))
    return Draw(seed, step, 0, 1, float(rng.choice([0.1, 0.5, 0.9]))) if rng.integers(3) else None


def _tokens(rng: Generator, batch: int, vocabulary: int) -> np.ndarray[Any, Any]:
    """Token ids (B, T), each row padded with 0 from some place on, the first of full length."""
    length = int(rng.integers(2, 6))
    tokens = rng.integers(1, vocabulary, size=(batch, length))
    ends = rng.integers(1, length + 1, size=(batch, 1))
    ends[0] = length
    return np.where(np.arange(length) < ends, tokens, 0)


def _linear(rng: Generator) -> tuple[Any, ...]:
    b, t, c, f = _lengths(rng, 4)
    return _normal(rng, b, t, c), _normal(rng, c, f), _normal(rng, f)


def _softmax(rng: Generator) -> tuple[Any, ...]:
    b, t, s = _lengths(rng, 3)
    x = rng.choice([0.1, 1.0, 5.0]) * _normal(rng, b, t, s)
    return (x, rng.random((b, t, s)) < 0.7) if rng.integers(2) else (x,)


def _embedding(rng: Generator) -> tuple[Any, ...]:
    b, t, v, c = _lengths(rng, 4)
    return rng.integers(0, v, size=(b, t)), _normal(rng, v, c), float(rng.uniform(0.5, 3))


def _learned_positions(rng: Generator) -> tuple[Any, ...]:
    b, t, c, offset = _lengths(rng, 4)
    return _normal(rng, b, t, c), _normal(rng, t + offset + int(rng.integers(3)), c), offset


def _layer_norm(rng: Generator) -> tuple[Any, ...]:
    b, t, c = _lengths(rng, 3)
    return _normal(rng, b, t, c + 1), _normal(rng, c + 1), _normal(rng, c + 1), float(rng.choice([1e-5, 1e-2]))


def _attention(rng: Generator) -> tuple[Any, ...]:
    b, h, t, s, d = *_heads(rng), *_lengths(rng, 3)
    mask = AttentionMask(
        key_visible=rng.random((b, s)) < 0.7 if rng.integers(2) else None,
        causal=bool(rng.integers(2)),
        query_offset=int(rng.integers(3)),
        window=int(rng.integers(1, 4)) if rng.integers(2) else None,
    )
    return _normal(rng, b, h, t, d), _normal(rng, b, h, s, d), _normal(rng, b, h, s, d), mask, _draw(rng)


def _biased_attention(rng: Generator) -> tuple[Any, ...]:
    q, k, v, mask, draw = _attention(rng)
    return q, k, v, _normal(rng, q.shape[1], q.shape[2], k.shape[2]), mask, draw


def _local_attention(rng: Generator) -> tuple[Any, ...]:
    b, h, t, d = *_heads(rng), *_lengths(rng, 2)
    window = int(rng.integers(1, 4)) if rng.integers(3) else None
    mask = AttentionMask(
        key_visible=rng.random((b, t)) < 0.7 if rng.integers(2) else None,
        causal=bool(rng.integers(2)),
        window=window,
        stride=int(rng.integers(1, 4)) if window is None or rng.integers(2) else None,
    )
    return *(_normal(rng, b, h, t, d) for _ in range(3)), mask, _draw(rng)


def _linear_attention(rng: Generator) -> tuple[Any, ...]:
    b, h, t, s, d = *_heads(rng), *_lengths(rng, 3)
    causal = bool(rng.integers(2))
    s = t if causal else s
    mask = AttentionMask(rng.random((b, s)) < 0.7 if rng.integers(2) else None, causal)
    return _normal(rng, b, h, t, d), _normal(rng, b, h, s, d), _normal(rng, b, h, s, d), mask


def _rotary(rng: Generator) -> tuple[Any, ...]:
    b, h, t, d = _lengths(rng, 4)
    return _normal(rng, b, h, t, 2 * d), int(rng.integers(5)), float(rng.choice([10.0, 10000.0]))


def _relative_bias(rng: Generator) -> tuple[Any, ...]:
    k, h, t, s = _lengths(rng, 4)
    return _normal(rng, 2 * k, h), t, s, int(rng.integers(3)), bool(rng.integers(2)), int(rng.integers(k + 1, 20))


def _batch_norm(rng: Generator) -> tuple[Any, ...]:
    b, t, c = _lengths(rng, 3)
    counts = rng.random((b, t)) < 0.7 if rng.integers(2) else None
    if counts is not None:
        counts[:, :2] = True  # of one token alone the normed value is 0, and nothing to be proven
    return _normal(rng, b, t, c), _normal(rng, c), _normal(rng, c), counts


def _batch_norm_inference(rng: Generator) -> tuple[Any, ...]:
    b, t, c = _lengths(rng, 3)
    return *(_normal(rng, *shape) for shape in ((b, t, c), (c,), (c,), (c,))), rng.uniform(0.1, 2, c)


def _gru(rng: Generator) -> tuple[Any, ...]:
    b, t, i, c = _lengths(rng, 4)
    weights = _normal(rng, i, 3 * c), _normal(rng, 3 * c), _normal(rng, c, 3 * c), _normal(rng, 3 * c)
    return _normal(rng, b, t, i), _normal(rng, b, c), *weights, rng.random((b, t)) < 0.7 if rng.integers(2) else None


def _conv1d(rng: Generator) -> tuple[Any, ...]:
    b, t, k, i, o = _lengths(rng, 5)
    return _normal(rng, b, t, i), _normal(rng, k, i, o), _normal(rng, o), bool(rng.integers(2))


def _residual(rng: Generator) -> tuple[Any, ...]:
    shape = _lengths(rng, 3)
    return _normal(rng, *shape), _normal(rng, *shape), _draw(rng)


def _norm_of_sum(rng: Generator) -> tuple[Any, ...]:
    b, t, c = _lengths(rng, 3)
    x, f = _normal(rng, b, t, c + 1), _normal(rng, b, t, c + 1)
    return x, f, _normal(rng, c + 1), _normal(rng, c + 1), 1e-5, _draw(rng)


def _feed_forward(rng: Generator) -> tuple[Any, ...]:
    b, t, c, f = _lengths(rng, 4)
    weights = _normal(rng, c, f), _normal(rng, f), _normal(rng, f, c), _normal(rng, c)
    return _normal(rng, b, t, c), *weights, str(rng.choice(["relu", "gelu"])), _draw(rng)


def _cross_entropy(rng: Generator) -> tuple[Any, ...]:
    b, t, v = _lengths(rng, 3)
    targets = rng.integers(0, v, size=(b, t))
    targets[0, 0] = 1  # one counts, whatever is ignored
    return _normal(rng, b, t, v), targets, [0, None][rng.integers(2)], float(rng.choice([0.0, 0.1]))


def _elementwise(rng: Generator) -> tuple[Any, ...]:
    return (rng.choice([0.5, 3.0]) * _normal(rng, *_lengths(rng, 3)),)


_INPUTS: dict[str, Callable[[Generator], tuple[Any, ...]]] = {
    "linear": _linear,
    "relu": _elementwise,
    "gelu": _elementwise,
    "softmax": _softmax,
    "dropout": lambda rng: (*_elementwise(rng), _draw(rng)),
    "embedding": _embedding,
    "sinusoidal_positions": lambda rng: (*_elementwise(rng), int(rng.integers(5))),
    "learned_positions": _learned_positions,
    "rotary": _rotary,
    "relative_bias": _relative_bias,
    "layer_norm": _layer_norm,
    "batch_norm": _batch_norm,
    "batch_norm_inference": _batch_norm_inference,
    "attention": _attention,
    "biased_attention": _biased_attention,
    "local_attention": _local_attention,
    "linear_attention": _linear_attention,
    "residual": _residual,
    "post_norm": _norm_of_sum,
    "add_norm": _norm_of_sum,
    "feed_forward": _feed_forward,
    "cross_entropy": _cross_entropy,
    "gru": _gru,
    "conv1d": _conv1d,
}
