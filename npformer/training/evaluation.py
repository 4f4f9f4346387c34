"""Measures a model on held-out examples.

Loss and token accuracy are teacher-forced: the model reads the true prefix. Exact match of a
translation is free-running: the model's own output, from [BOS] to [EOS], must be the target, character by
character. A model can be excellent at the first and fail at the second, so both are measured.

The measures for each kind of task:

    translate   token accuracy, exact match
    classify    accuracy
    tag         token accuracy; exact match: texts whose tokens are all right
    masked      token accuracy, of the hidden tokens
    causal      token accuracy; bits per character: −log₂ of the probability of the text / its characters
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from npformer.data import BOS_ID, EOS_ID, PAD_ID, Kind, Task
from npformer.decoding import greedy
from npformer.functional.arrays import namespace
from npformer.io.progress_bar import watched
from npformer.models import Model, Transformer
from npformer.typing import Array, HostArray

BATCH_SIZE = 250

#: Tokens in a batch of evaluation: long texts must not need more memory than training.
TOKENS = 16_384


@dataclass(frozen=True)
class Evaluation:
    """What ``evaluate_task`` found."""

    loss: float  # nats per token
    token_accuracy: float  # share of right tokens, with the true prefix given
    exact_match: float  # share of right sequences: free-running for a translation, else with all tokens right
    count: int  # sequences
    outputs: tuple[str, ...]  # decoded outputs, in the order of the examples; empty for a causal model
    kind: Kind = "translate"
    bits_per_character: float = math.nan  # for a causal model

    @property
    def measures(self) -> dict[str, float]:
        """The measures of this kind of model, by name."""
        if self.kind == "classify":
            return {"accuracy": self.exact_match}
        if self.kind == "masked":
            return {"token_accuracy": self.token_accuracy}
        if self.kind == "causal":
            return {"token_accuracy": self.token_accuracy, "bits_per_character": self.bits_per_character}
        return {"token_accuracy": self.token_accuracy, "exact_match": self.exact_match}

    @property
    def score(self) -> float:
        """The score that compares checkpoints; higher is better.

        Exact match, and token accuracy if equal; for masked tokens token accuracy; for a language model −loss.
        """
        if self.kind == "causal":
            return -self.loss
        if self.kind == "masked":
            return self.token_accuracy
        return self.exact_match + 1e-3 * self.token_accuracy


#: As map, but perhaps others make some of the results.
Scatter = Callable[[Callable[[int], Any], Iterable[int]], Iterable[Any]]


def evaluate_task(model: Model, task: Task, count: int, scatter: Scatter = map) -> Evaluation:
    """Measure model on the first count held-out examples of its task. Raises DataError if there are none.

    scatter: who computes which batch; batches are the same for any number of ranks.
    """
    examples, translates = task.held_out(count), isinstance(model, Transformer)
    size = BATCH_SIZE if translates else min(BATCH_SIZE, max(1, TOKENS // task.max_length))
    order = list(range(len(examples)))
    if translates:
        order.sort(key=lambda i: len(examples[i].source))  # little padding in a batch

    def measured(start: int) -> tuple[float, int, int, int, list[str]]:
        batch: Any = task.collate([examples[i] for i in order[start : start + size]])
        *inputs, targets = batch
        logits = model(*inputs)  # (B, K) or (B, T, K)
        loss, _ = model.ops.cross_entropy.forward(logits, model.backend.integers(targets), PAD_ID, 0.0)
        best = namespace(logits).argmax(logits, axis=-1) if translates else likeliest(logits)
        chosen, counted = model.backend.host(best), targets != PAD_ID
        right = int(((chosen == targets) & counted).sum())
        whole = int(((chosen == targets) | ~counted).reshape(len(targets), -1).all(axis=1).sum())
        if isinstance(model, Transformer):
            decoded = greedy(model, inputs[0], task.max_length, bos_id=BOS_ID, eos_id=EOS_ID)
            outputs = [task.tokenizer.decode(row) for row in decoded]
        else:
            outputs = [_as_target(task, *row) for row in zip(inputs[0], chosen, counted, strict=True)]
        return float(loss) * int(counted.sum()), int(counted.sum()), right, whole, outputs

    loss_sum = tokens = right = whole = 0.0
    written: list[str] = []
    measure = partial(model.backend.with_room, measured)  # a training's records may have all memory
    for of_batch in scatter(measure, watched(range(0, max(1, len(examples)), size), "held-out batches")):
        sums = zip((loss_sum, tokens, right, whole), of_batch, strict=False)
        loss_sum, tokens, right, whole = (a + b for a, b in sums)
        written += of_batch[-1]
    places = {place: i for i, place in enumerate(order)}
    outputs = tuple(written[places[i]] for i in range(len(examples)))
    if translates:  # free-running
        whole = sum(output == example.target for output, example in zip(outputs, examples, strict=True))
    characters = sum(len(example.target) for example in examples)
    bits = loss_sum / math.log(2) / characters if task.kind == "causal" else math.nan
    shares = loss_sum / tokens, right / tokens, whole / len(examples)
    return Evaluation(*shares, len(examples), outputs, task.kind, bits)


def likeliest(logits: Array) -> Array:
    """The likeliest class or token of logits (..., K), except [PAD], which is never a target; on their device."""
    return 1 + namespace(logits).argmax(logits[..., 1:], axis=-1)


def _as_target(task: Task, tokens: HostArray, chosen: HostArray, counted: HostArray) -> str:
    """The output for one example in the form of its target; for masked tokens, the text with them filled in."""
    if task.kind == "classify":
        return task.classes[int(chosen)]
    if task.kind == "tag":
        return " ".join(task.classes[i] for i in chosen[counted])
    return task.tokenizer.decode(np.where(counted, chosen, tokens)) if task.kind == "masked" else ""
