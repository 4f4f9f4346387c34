"""Small models to trace and explain: a Transformer with each of its options, an encoder for each head, a decoder.

The first, the showcase, is the smallest Transformer with everything in it, on a batch with padding: the model of the
pages. The catalogue's layers and models can be asked for, too, by a part of their name that only one of them has.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from npformer.backend import get_backend
from npformer.check.cases.case import KEY, Case, shaken
from npformer.check.cases.catalogue import catalogue
from npformer.errors import ConfigError
from npformer.functional import OPERATIONS
from npformer.models import DecoderConfig, EncoderConfig, Transformer, TransformerConfig, build_model
from npformer.models.config import ModelConfig
from npformer.see.record.recording import Setting
from npformer.see.record.trace import Trace, trace
from npformer.typing import HostArray

#: The tokens by id.
PIECES = ("[PAD]", "[BOS]", "[EOS]", "b", "o", "t", "a", "d")
#: What the model reads and is to write, backward: the second word is shorter, so that its row is padded.
WORDS = ("bot", "to")


class Showcase(NamedTuple):
    """The model, its inputs and targets, and the labels of their positions."""

    model: Transformer
    inputs: tuple[HostArray, HostArray]  # src (B, S) and tgt_in (B, T)
    targets: HostArray  # tgt_out (B, T)
    tokens: dict[str, list[list[str]]]


def showcase_model(**changes: Any) -> Showcase:
    """Vocabulary 8, d = 4, 2 heads, one encoder layer and one decoder layer; S = T = 4, a batch of 2.

    changes: of the configuration (``norm_order="pre"``, ``tie_embeddings=True``, …).
    """
    size = {"d_model": 4, "num_heads": 2, "d_ff": 6, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = TransformerConfig(len(PIECES), len(PIECES), **({"dropout": 0.0, "max_seq_len": 4} | size | changes))
    model = Transformer(config, backend=plain_backend(), seed=0)
    shaken(model)
    src = ids_of([[*word, "[EOS]"] for word in WORDS])
    tgt_in = ids_of([["[BOS]", *reversed(word)] for word in WORDS])
    tgt_out = ids_of([[*reversed(word), "[EOS]"] for word in WORDS])
    labels = {"source": src, "target_in": tgt_in, "target_out": tgt_out}
    tokens = {name: _told(ids, PIECES) for name, ids in labels.items()}
    return Showcase(model, (src, tgt_in), tgt_out, tokens)


def showcase(*, lines: bool = True, **changes: Any) -> Trace:
    """The trace of the showcase's model; lines as in ``npf.trace``, changes as in ``showcase_model``."""
    model, inputs, targets, tokens = showcase_model(**changes)
    named = tokens | {"pieces": [list(PIECES)]}
    return trace(model, *inputs, targets=targets, tokens=named, name="transformer", lines=lines)


def ids_of(rows: list[list[str]]) -> HostArray:
    """The token ids (B, T) of these rows, padded."""
    width = max(map(len, rows))
    return np.array([[PIECES.index(piece) for piece in [*row, *["[PAD]"] * (width - len(row))]] for row in rows])


#: The showcase with other options.
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "transformer-pre": {"norm_order": "pre"},
    "transformer-tied": {"tie_embeddings": True},
    "transformer-gelu": {"activation": "gelu", "norm_order": "pre"},
    "transformer-deep": {"num_encoder_layers": 2, "num_decoder_layers": 2, "norm_order": "pre"},
    "transformer-dropout": {"dropout": 0.3},
    "learned-positions": {"positions": "learned"},
    "no-positions": {"positions": "none"},
    "rotary-positions": {"positions": "rotary"},
    "relative-positions": {"positions": "relative"},
    "local": {"attention": "local", "window": 2},
    "linear-attention": {"attention": "linear", "norm_order": "pre"},
    "batch-norm": {"norm": "batch"},
    "final-norm": {"final_norm": True},
}
_SIZE = {"d_model": 4, "num_heads": 2, "d_ff": 6, "num_layers": 2, "max_seq_len": 6, "dropout": 0.0}
_ONE: dict[str, tuple[Any, dict[str, Any]]] = {
    "encoder": (EncoderConfig, {"head": "masked"}),
    "encoder-tied": (EncoderConfig, {"head": "masked", "tie_embeddings": True, "norm_order": "pre"}),
    "classifier": (EncoderConfig, {"head": "sequence", "num_classes": 3}),
    "tagger": (EncoderConfig, {"head": "tokens", "num_classes": 4, "norm_order": "pre", "activation": "gelu"}),
    "decoder": (DecoderConfig, {}),
    "decoder-rotary": (DecoderConfig, {"positions": "rotary", "norm_order": "pre"}),
    "decoder-tied": (DecoderConfig, {"tie_embeddings": True, "norm_order": "pre", "activation": "gelu"}),
    "decoder-strided": (DecoderConfig, {"attention": "local", "stride": 2}),
}

NAMES = (*TRANSFORMERS, *_ONE)


def plain_backend() -> Any:
    """Of NumPy, in float64 with the plain kernels."""
    return get_backend("numpy", dtype="float64", kernels="plain")


def model_setting(name: str) -> Setting:
    """The small model, layer or case of the catalogue with this name. Raises ConfigError, with the nearest names."""
    name = name.lower() if name.lower() in NAMES else name
    if name in TRANSFORMERS:
        model, inputs, targets, tokens = showcase_model(**TRANSFORMERS[name])
        options = {"key": KEY} if model.config.dropout else {}
        return Setting(name, model, inputs, options, targets, labels=tokens, pieces=PIECES)
    if name in _ONE:
        kind, changes = _ONE[name]
        alone: Any = build_model(kind(vocab_size=len(PIECES), **(_SIZE | changes)), backend=plain_backend())
        return _with_targets(name, shaken(alone), (ids_of([["[BOS]", *word] for word in WORDS]),), PIECES, {})
    cases = [case for case in catalogue(name) if case.group != "op"]
    exact = [case for case in cases if case.name.lower() == name.lower()]
    if len(exact or cases) == 1:
        return case_setting((exact or cases)[0])
    if cases:
        some = "; ".join(case.name for case in cases[:4]) + ("; …" if len(cases) > 4 else "")
        raise ConfigError(
            "TARGET: expected a part of the name of one check of npformer gradcheck alone, "
            f"got {name!r}, which {len(cases)} have: {some}"
        )
    near = get_close_matches(name, (*NAMES, *OPERATIONS), 3, 0.6)
    hint = f"did you mean {' or '.join(near)}? " if near else "there is no such folder; " if os.sep in name else ""
    raise ConfigError(
        f"TARGET: expected an operation, the folder of a run, a small model or FILE.py[:NAME], got {name!r}; {hint}"
        "npformer explain --list names operations and small models"
    )


def case_setting(case: Case) -> Setting:
    """A layer or a model of the catalogue; the loss of a layer is Σ r·y."""
    target = case.build(plain_backend())
    config = getattr(target, "config", None)
    if not isinstance(config, ModelConfig):
        return Setting(case.name, target, case.inputs, case.options)
    letters = ("[PAD]", "[BOS]", "[EOS]", *(chr(ord("a") + i) for i in range(config.batch[0].below - 3)))
    return _with_targets(case.name, target, case.inputs, letters, case.options)


def some_targets(config: ModelConfig, tokens: HostArray) -> HostArray:
    """Targets that suit a model's last input: the next token, the token itself, or a class; 0 does not count."""
    last = config.batch[-1]
    if last.shape == "B":
        return np.asarray(1 + np.arange(len(tokens)) % (last.below - 1))
    if isinstance(config, EncoderConfig):
        hidden = (np.arange(tokens.shape[1]) % 2 == 0) | (config.head == "tokens")
        return np.where((tokens != config.pad_id) & hidden, 1 + (tokens - 1) % (last.below - 1), 0)
    following = np.concatenate([tokens[:, 1:], np.zeros_like(tokens[:, :1])], axis=1)
    ends = (tokens != config.pad_id) & (following == config.pad_id)
    return np.where(ends & (tokens != 2), 2, following)


def _with_targets(
    name: str, model: Any, inputs: tuple[HostArray, ...], pieces: tuple[str, ...], options: dict[str, Any]
) -> Setting:
    """A model with targets that suit it, and the text of each token and target; classes have numbers."""
    config, targets = model.config, some_targets(model.config, inputs[-1])
    of_classes = config.batch[-1].below != config.batch[0].below
    rows = {side: _told(x, pieces) for side, x in zip(("source", "target_in"), inputs, strict=False)}
    classes = tuple(f"class {i}" for i in range(config.batch[-1].below)) if of_classes else pieces
    rows["target_out"] = _told(targets if targets.ndim > 1 else targets[:, None], classes)
    return Setting(name, model, inputs, options, targets, labels=rows, pieces=pieces)


def _told(ids: HostArray, pieces: Sequence[str]) -> list[list[str]]:
    """The text of each id (B, T)."""
    return [[pieces[i] for i in row] for row in ids.tolist()]
