"""Which output depends on which input: a whole model compared with one in loops."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from npformer.backend import Backend
from npformer.data import Example, Vocabulary, collate
from npformer.decoding import greedy
from npformer.functional import AttentionMask
from npformer.lab.museum.checks.check import TGT_IN, TGT_OUT, differ, of_backend, small_config
from npformer.lab.museum.checks.plain_transformer import Plain
from npformer.layers import Context, EncoderLayer
from npformer.models import Transformer
from npformer.proof.case import shaken

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
    config = built.config
    plain = Plain(
        {name: np.array(p.data) for name, p in built.named_parameters()},
        config.num_heads,
        (config.num_encoder_layers, config.num_decoder_layers),
        config.norm_order == "pre",
        config.activation == "gelu",
    )
    tgt = TGT_IN[:, :4]  # another length than the source
    logits = built(SRC, tgt)
    expected = [plain.logits(s.tolist(), t.tolist()) for s, t in zip(SRC, tgt, strict=True)]
    return differ("a logit", logits, expected, tolerance=1e-11)


def _changed(tokens: Any, column: int) -> Any:
    other = tokens.copy()
    other[0, column] = 5 if tokens[0, column] != 5 else 6
    return other


def _causality(backend: Backend) -> list[str]:
    built, problems = model(backend), []
    before = built(SRC, TGT_IN)
    for t in range(1, 5):
        after = built(SRC, _changed(TGT_IN, t))
        if not np.max(np.abs(after[0, :t] - before[0, :t])) <= 1e-12:
            problems.append(f"changing target token {t} changes the logits before it: the decoder sees the future")
    return problems[:1]


def _uses_past(backend: Backend) -> list[str]:
    built = model(backend)
    before = built(SRC, TGT_IN)
    silent = [t for t in range(5) if not np.max(np.abs(built(SRC, _changed(TGT_IN, t))[0, 4] - before[0, 4])) > 1e-9]
    weights = built.attention_weights(SRC, TGT_IN)["decoder.layers.0.self_attention"]
    own = np.min(np.einsum("htt->ht", weights[0]))
    problems = [f"target token {t} has no influence on the last logits" for t in silent]
    return problems + ([] if own > 0 else ["a target token does not see itself"])


def _reads_source(backend: Backend) -> list[str]:
    built = model(backend, num_encoder_layers=1, num_decoder_layers=1)
    before = built(SRC, TGT_IN)
    changes = [np.max(np.abs(built(SRC, _changed(SRC, s))[0] - before[0]), axis=-1) for s in range(5)]
    silent = [s for s, change in enumerate(changes) if not change.min() > 1e-12]
    weights = built.attention_weights(SRC, TGT_IN)["encoder.layers.0.self_attention"]
    problems = [f"source token {s} does not reach every target position" for s in silent]
    return problems + ([] if weights[0].min() > 0 else ["an encoder position does not see another"])


def _padding(backend: Backend) -> list[str]:
    src, tgt, out = SRC[:2], TGT_IN[:2], TGT_OUT[:2]
    wide = [np.pad(x, ((0, 0), (0, 2))) for x in (src, tgt, out)]
    short, long = (_loss_and_gradients(backend, *batch) for batch in ((src, tgt, out), wide))
    problems = differ("the loss after more padding", long[0], short[0])
    counted = out != 0
    problems += differ("logits after more padding", long[1][:, :5][counted], short[1][counted])
    for name, gradient in short[2].items():
        problems += differ(f"the gradient of {name} after more padding", long[2][name], gradient)
    for side in ("src", "tgt"):
        problems += differ(
            f"the gradient of the pad row of {side}", short[2][f"{side}_embedding.weight"][0], np.zeros(8)
        )
    return problems


def _loss_and_gradients(backend: Backend, src: Any, tgt: Any, out: Any) -> tuple[Any, Any, dict[str, Any]]:
    built = model(backend)
    logits, cache = built.forward(src, tgt)
    loss, loss_cache = backend.ops.cross_entropy.forward(logits, out, 0, 0.1)
    built.zero_grad()
    built.backward(backend.ops.cross_entropy.backward(1.0, loss_cache), cache)
    return loss, logits, {name: np.array(p.grad) for name, p in built.named_parameters()}


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
    found = greedy(built, SRC[:2], 6)
    tokens = [[1], [1]]
    for row, ids in enumerate(tokens):
        while len(ids) <= found.shape[1] and ids[-1] != 2:
            ids.append(int(np.argmax(built(SRC[row : row + 1], np.array([ids]))[0, -1])))
    expected = [(ids[1:] + [0] * found.shape[1])[: found.shape[1]] for ids in tokens]
    state = built.start(SRC[:2], 5)
    steps = np.stack([built.step(TGT_IN[:2, t], state) for t in range(5)], axis=1)  # (B, T, V)
    return differ("a decoded token", found, expected) + differ("a logit of a step", steps, built(SRC[:2], TGT_IN[:2]))


def _padded_rows(backend: Backend) -> list[str]:
    """A token of zeros, as padding may be: the norm must not make its gradient infinite."""
    layer = shaken(EncoderLayer(8, 2, 12, norm_order="pre", backend=backend))
    x = np.random.default_rng(4).normal(size=(1, 4, 8)) * [[[1.0], [1.0], [0.0], [0.0]]]
    y, cache = layer.forward(x, context=Context(AttentionMask(np.array([[True, True, False, False]]))))
    dx = layer.backward(np.ones_like(y) * [[[1.0], [1.0], [0.0], [0.0]]], cache)
    return [] if np.isfinite(y).all() and np.isfinite(dx).all() else ["an output or gradient is not finite"]


CHECKS = of_backend(
    ("causality", "a later target token changes no earlier logit", _causality),
    ("every past token", "every earlier target token, the last one too, changes a logit", _uses_past),
    ("reads all of the source", "every source token changes every logit", _reads_source),
    ("padding", "more padding changes neither logits nor loss nor gradients, and pad rows learn nothing", _padding),
    ("shifted target", "the decoder reads the token before the one it predicts", _shift),
    ("decoding", "step by step, logits and the likeliest tokens equal those of a full forward", _decoding),
    ("padded tokens", "padded tokens that are all zeros leave every output and gradient finite", _padded_rows),
    ("parity, post-LN", "logits equal those of a Transformer written in loops, from the paper", _parity),
    (
        "parity, pre-LN",
        "the same, pre-LN with final norms, GELU, and one tied table",
        partial(_parity, norm_order="pre", activation="gelu", tie_embeddings=True),
    ),
)
