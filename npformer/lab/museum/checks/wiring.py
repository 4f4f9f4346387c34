"""Which output depends on which input: a whole model compared with one wired from the paper."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.check.cases.case import shaken
from npformer.data import Example, Vocabulary, collate
from npformer.decoding import greedy
from npformer.lab.museum.checks.check import TGT_IN, differ, of_backend, small_config
from npformer.lab.museum.checks.plain_transformer import Plain
from npformer.models import Transformer

#: Sources as long as TGT_IN, so that swapped sides do not crash; the last one is only padding.
SRC = np.array([[3, 5, 4, 6, 2], [6, 6, 2, 0, 0], [0, 0, 0, 0, 0]])


def model(backend: Backend, **changes: Any) -> Transformer:
    """A small model without dropout, every parameter moved from its initial value."""
    config = small_config(**({"num_encoder_layers": 2, "num_decoder_layers": 2, "max_seq_len": 8} | changes))
    built = shaken(Transformer(config, backend=backend, seed=3))
    assert isinstance(built, Transformer)
    return built


def _parity(backend: Backend, **changes: Any) -> list[str]:
    built = model(backend, **changes)
    tgt = TGT_IN[:, :4]  # another length than the source
    logits = built(SRC, tgt)
    plain = Plain({name: np.array(p.data) for name, p in built.named_parameters()}, built.config)
    expected = plain.logits(SRC, tgt)
    return differ("a logit", logits, expected, tolerance=1e-11)


def _shift(backend: Backend) -> list[str]:
    batch = collate([Example("ab", "xyz"), Example("c", "x")], Vocabulary.from_characters("abcxyz"))
    problems = differ(
        "tgt_in, one place later,",
        batch.tgt_in[:, 1:] * (batch.tgt_in[:, 1:] != 0),
        batch.tgt_out[:, :-1] * (batch.tgt_in[:, 1:] != 0),
    )
    return problems + differ("the first token given to the decoder", batch.tgt_in[:, 0], [1, 1])


def _decoding(backend: Backend) -> list[str]:
    built = model(backend, num_encoder_layers=1, num_decoder_layers=1, norm_order="pre")
    rng = np.random.default_rng(1)  # a model that does not repeat one token
    for _, parameter in built.named_parameters():
        parameter.data[...] += rng.normal(size=parameter.data.shape)
    decoded = greedy(built, SRC[:2], 6)
    tokens = [[1], [1]]
    for row, ids in enumerate(tokens):
        while len(ids) <= decoded.shape[1] and ids[-1] != 2:
            ids.append(int(np.argmax(built(SRC[row : row + 1], np.array([ids]))[0, -1])))
    expected = [(ids[1:] + [0] * decoded.shape[1])[: decoded.shape[1]] for ids in tokens]
    state = built.start(SRC[:2], 5)
    steps = np.stack([built.step(TGT_IN[:2, t], state) for t in range(5)], axis=1)  # (B, T, V)
    return differ("a decoded token", decoded, expected) + differ("a logit of a step", steps, built(SRC[:2], TGT_IN[:2]))


CHECKS = of_backend(
    ("shifted target", "the decoder reads the token before the one it predicts", _shift),
    ("decoding", "step by step, logits and the likeliest tokens equal those of a full forward", _decoding),
    ("parity, post-LN", "logits equal those of a Transformer wired from the paper, of the exercises' pairs", _parity),
    (
        "parity, pre-LN",
        "the same, pre-LN with final norms, GELU, and one tied table",
        partial(_parity, norm_order="pre", activation="gelu", tie_embeddings=True),
    ),
)
