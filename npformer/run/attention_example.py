"""One decoded example with all its attention weights, for a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.data import BOS_ID, EOS_ID, Example, Task, Tokenizer
from npformer.models import Model, Transformer
from npformer.typing import HostArray, HostArrays

#: Sources of about this length show a pattern and leave the tokens legible.
WANTED_LENGTH = 10

#: The most tokens shown of a model with a single sequence: so four heads beside each other fit on a screen.
LONGEST = 20


class AttentionExample(NamedTuple):
    """The data of a picture of attention."""

    weights: HostArrays  # name of each attention -> (H, T, S)
    source: list[str]  # S tokens
    target: list[str]  # T tokens, the decoder's inputs
    title: str


def attention_example(
    model: Transformer, tokenizer: Tokenizer, examples: Sequence[Example], outputs: Sequence[str]
) -> AttentionExample:
    """The example whose length is nearest to ten characters, fed with its own output."""
    chosen = _chosen(examples)
    source, output = examples[chosen].source, outputs[chosen]
    src = np.array([[*tokenizer.encode(source), EOS_ID]])
    read = [BOS_ID, *tokenizer.encode(output)]
    if model.config.positions == "learned":
        read = read[: model.config.max_seq_len]  # the last character of an output without [EOS] was never an input
    return _example(model, tokenizer, f"{source} → {output}", src, np.array([read]))


def task_attention_example(
    model: Model, task: Task, examples: Sequence[Example], outputs: Sequence[str]
) -> AttentionExample:
    """The same for a model of any kind; a single sequence is shown as both sides, without padding."""
    if isinstance(model, Transformer):
        return attention_example(model, task.tokenizer, examples, outputs)
    chosen = _chosen(examples)
    whole = task.collate([examples[chosen]])[0]
    tokens = whole[:, :LONGEST]
    title = f"{examples[chosen].source} → {outputs[chosen]}" if outputs[chosen] else examples[chosen].source
    if tokens.shape[1] < whole.shape[1]:
        title = f"the first {LONGEST} of {whole.shape[1]} tokens: {title}"
    return _example(model, task.tokenizer, title, tokens)


def _example(model: Any, tokenizer: Tokenizer, title: str, *ids: HostArray) -> AttentionExample:
    weights = {name: model.backend.host(w)[0] for name, w in model.attention_weights(*ids).items()}
    source, target = ([tokenizer.vocabulary.pieces[i] for i in side[0]] for side in (ids[0], ids[-1]))
    return AttentionExample(weights, source, target, title)


def _chosen(examples: Sequence[Example]) -> int:
    return min(range(len(examples)), key=lambda i: abs(len(examples[i].source) - WANTED_LENGTH))
