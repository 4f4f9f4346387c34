"""The model of the pages: the smallest Transformer with everything in it, on a batch with padding."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from npformer.backend import get_backend
from npformer.check.cases.case import shaken
from npformer.models import Transformer, TransformerConfig
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
    model = Transformer(config, backend=get_backend("numpy", dtype="float64", kernels="plain"), seed=0)
    shaken(model)
    src = ids_of([[*word, "[EOS]"] for word in WORDS])
    tgt_in = ids_of([["[BOS]", *reversed(word)] for word in WORDS])
    tgt_out = ids_of([[*reversed(word), "[EOS]"] for word in WORDS])
    labels = {"source": src, "target_in": tgt_in, "target_out": tgt_out}
    tokens = {name: [[PIECES[i] for i in row] for row in ids.tolist()] for name, ids in labels.items()}
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
