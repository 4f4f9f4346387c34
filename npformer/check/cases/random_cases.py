"""Random draws of shapes, options and numbers: a right gradient must never be called wrong.

Every draw is a Case like those of the catalogue, made from a seed: small sizes, most between 2 and 6 (2 or 3
heads, and as many sequences), masks that hide some or all keys of a sequence, repeated tokens,
targets that do not count, with or without dropout.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npformer import functional
from npformer.check.cases import op_samples
from npformer.check.cases.case import Case, CaseSizes, UsualSizes, model
from npformer.functional import OPERATIONS
from npformer.layers import RandomKey
from npformer.models import Transformer, TransformerConfig
from npformer.typing import HostArray

OPS = tuple(OPERATIONS)


def random_cases(per_op: int, models: int, seed: int = 0) -> Iterator[Case]:
    """per_op draws of every operation, and draws of the Transformer."""
    for op in OPS:
        for number in range(per_op):
            yield random_op_case(op, seed, number)
    for number in range(models):
        yield random_model_case(seed, number)


def random_op_case(op: str, seed: int, number: int) -> Case:
    """The numbered draw of an operation; repeated while its whole output is 0, which would prove nothing."""
    rng = np.random.default_rng([seed, OPS.index(op), number])
    make, sizes = getattr(op_samples, op), CaseSizes(rng)
    inputs = make(sizes)
    while not np.any(getattr(functional, f"{op}_forward")(*inputs)[0]):
        inputs = make(sizes)
    name = f"{op}: draw {number} of seed {seed}"
    return Case("op", name, lambda backend: getattr(backend.ops, op), inputs, length_one=True)


def usual_inputs(op: str, dtype: Any = "float64") -> tuple[Any, ...]:
    """Small inputs of an operation in this precision, with the usual options, and dropout if it has any."""
    inputs = getattr(op_samples, op)(UsualSizes(np.random.default_rng(0)))
    return tuple(x.astype(dtype) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x for x in inputs)


def random_model_case(seed: int, number: int) -> Case:
    """The numbered draw of a small Transformer."""
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
    inputs = (_padded(rng, batch, vocabulary), _padded(rng, batch, vocabulary))
    key = RandomKey(seed, number) if rng.integers(2) else None
    return model(f"Transformer: draw {number} of seed {seed}", Transformer, config, *inputs, key=key)


def _padded(rng: np.random.Generator, batch: int, vocabulary: int) -> HostArray:
    """Token ids (B, T), each row padded with 0 from some place on, the first of full length."""
    length = int(rng.integers(2, 6))
    tokens = rng.integers(1, vocabulary, size=(batch, length))
    ends = rng.integers(1, length + 1, size=(batch, 1))
    ends[0] = length
    return np.where(np.arange(length) < ends, tokens, 0)
