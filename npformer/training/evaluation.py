"""How good a model is on examples it was not trained on.

Loss and token accuracy are teacher-forced: the decoder is given the true beginning. Exact match is
free-running: the model's own output, from [BOS] to [EOS], must be the target, character by character.
A model can be excellent at the first and fail at the second, so both are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npformer.data import BOS_ID, EOS_ID, PAD_ID, Example, Vocabulary, collate
from npformer.decoding import greedy
from npformer.models import Transformer

BATCH_SIZE = 250


@dataclass(frozen=True)
class Evaluation:
    """What ``evaluate`` found."""

    loss: float  # nats per token
    token_accuracy: float  # share of tokens, with the true beginning given
    exact_match: float  # share of sequences, decoded freely
    count: int  # sequences
    outputs: tuple[str, ...]  # what was decoded, in the order of the examples


def evaluate(model: Transformer, examples: Sequence[Example], vocabulary: Vocabulary, max_len: int) -> Evaluation:
    """Measure model on examples, decoding at most max_len tokens each. Raises DataError if there are none."""
    by_length = sorted(range(len(examples)), key=lambda i: len(examples[i].source))  # little padding
    loss_sum = tokens = right = 0.0
    outputs = [""] * len(examples)
    for start in range(0, max(1, len(examples)), BATCH_SIZE):
        chosen = by_length[start : start + BATCH_SIZE]
        batch = collate([examples[i] for i in chosen], vocabulary)
        logits = model(batch.src, batch.tgt_in)  # (B, T, V)
        counted = batch.tgt_out != PAD_ID
        loss, _ = model.ops.cross_entropy.forward(logits, model.backend.integers(batch.tgt_out), PAD_ID, 0.0)
        loss_sum += float(loss) * int(counted.sum())
        tokens += int(counted.sum())
        likeliest = np.argmax(model.backend.host(logits), axis=-1)
        right += int(((likeliest == batch.tgt_out) & counted).sum())
        decoded = greedy(model, batch.src, max_len, bos_id=BOS_ID, eos_id=EOS_ID)
        for i, row in zip(chosen, decoded, strict=True):
            outputs[i] = vocabulary.decode(row)
    matches = sum(output == example.target for output, example in zip(outputs, examples, strict=True))
    return Evaluation(loss_sum / tokens, right / tokens, matches / len(examples), len(examples), tuple(outputs))
