"""One decoded example with all its attention weights, for a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from npformer.data import BOS_ID, EOS_ID, Example, Vocabulary
from npformer.models import Transformer
from npformer.typing import HostArray

#: Sources of about this length show a pattern and leave the tokens legible.
WANTED_LENGTH = 10


class AttentionExample(NamedTuple):
    """What a picture of attention needs."""

    weights: dict[str, HostArray]  # name of each attention -> (H, T, S)
    source: list[str]  # S tokens
    target: list[str]  # T tokens, as the decoder is given them
    title: str


def attention_example(
    model: Transformer, vocabulary: Vocabulary, examples: Sequence[Example], outputs: Sequence[str]
) -> AttentionExample:
    """The example whose length is nearest to ten characters, fed with its own output."""
    chosen = min(range(len(outputs)), key=lambda i: abs(len(examples[i].source) - WANTED_LENGTH))
    source, output = examples[chosen].source, outputs[chosen]
    src = np.array([[*vocabulary.encode(source), EOS_ID]])
    read = [BOS_ID, *vocabulary.encode(output)]
    if model.config.positions == "learned":
        read = read[: model.config.max_seq_len]  # the last character of an output without end was never read
    tgt_in = np.array([read])
    weights = {name: model.backend.host(w)[0] for name, w in model.attention_weights(src, tgt_in).items()}
    pieces = vocabulary.pieces
    return AttentionExample(
        weights, [pieces[i] for i in src[0]], [pieces[i] for i in tgt_in[0]], f"{source} → {output}"
    )
