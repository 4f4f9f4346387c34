"""Held-out examples and what a trained model makes of them, as ``train`` shows them at its end."""

from __future__ import annotations

import numpy as np

from npformer.data import PAD_ID, Example, Task
from npformer.io.printable import visible
from npformer.io.terminal import GREEN, RED, paint
from npformer.models import Encoder, Model
from npformer.run.text_example import MASK
from npformer.training import Evaluation
from npformer.training.evaluation import likeliest

SHOWN = 5
_WIDEST = 60  # characters of a text; the outputs are aligned behind the sources
_AROUND = 5  # the pieces of a text on each side of a hidden one


def held_out_lines(model: Model, task: Task, evaluation: Evaluation) -> list[str]:
    """The first held-out examples with the model's outputs, as lines; none for a model that continues texts."""
    if evaluation.kind == "causal":
        return []
    examples = task.held_out(evaluation.count)[:SHOWN]
    if evaluation.kind == "masked":
        rows = _filled(model, task, examples)
        lines = (example_line(visible(one.source), visible(output), visible(one.target)) for one, output in rows)
        return [f"held-out examples, {MASK} filled in:", *lines]
    rows = list(zip(examples, evaluation.outputs, strict=False))
    shown = [[_cut(visible(text)) for text in (one.source, output, one.target)] for one, output in rows]
    width = max(len(source) for source, _, _ in shown)
    return ["held-out examples, decoded:", *(example_line(*texts, width=width) for texts in shown)]


def example_line(source: str, output: str, target: str, *, width: int = 0) -> str:
    """One example; width: columns of the source."""
    if output == target:
        return f"  {source:<{width}} → {paint(output, GREEN)}"
    return f"  {source:<{width}} → {paint(output, RED)}   (expected {target})"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _filled(model: Model, task: Task, examples: list[Example]) -> list[tuple[Example, str]]:
    """For each text with a [MASK]: the words around one, what the model writes there, and what was there."""
    batch = task.collate(examples)
    inputs, targets = batch[0], batch[-1]
    assert isinstance(model, Encoder)
    guesses, pieces = likeliest(model.backend.host(model(inputs))), task.vocabulary.pieces
    whole = np.where(targets != PAD_ID, targets, inputs)  # the texts before a piece was hidden
    rows = []
    for row in range(len(inputs)):
        hidden = np.flatnonzero((inputs[row] == task.vocabulary.id_of(MASK)) & (targets[row] != PAD_ID))
        if hidden.size:
            at = int(hidden[np.abs(hidden - np.count_nonzero(inputs[row] != PAD_ID) // 2).argmin()])
            words = [pieces[i] for i in whole[row] if i != PAD_ID]
            text = [*words[max(0, at - _AROUND) : at], MASK, *words[at + 1 : at + 1 + _AROUND]]
            rows.append((Example(task.tokenizer.join(text), words[at]), pieces[guesses[row, at]]))
    return rows
