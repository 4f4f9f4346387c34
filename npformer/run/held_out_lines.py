"""Held-out examples and what a trained model makes of them, as ``train`` shows them at its end.

An example that does not fit on one line takes two or more: the source, then the output, and below a wrong output the
expected one, with a mark under the first difference.
"""

from __future__ import annotations

import unicodedata

import numpy as np

from npformer.data import PAD_ID, Example, Task
from npformer.io.printable import visible
from npformer.io.terminal import GREEN, RED, columns, paint
from npformer.models import Encoder, Model
from npformer.run.text_example import MASK
from npformer.training import Evaluation
from npformer.training.evaluation import likeliest

SHOWN = 5
_WIDEST = 60  # columns of the sources, behind which the outputs are aligned
_AROUND = 8  # the most pieces of a text on each side of a hidden one
_HEADS = "    got       ", "    expected  "


def held_out_lines(model: Model, task: Task, evaluation: Evaluation) -> list[str]:
    """The first held-out examples with the model's outputs, as lines; none for a model that continues texts."""
    if evaluation.kind == "causal":
        return []
    examples = task.held_out(evaluation.count)[:SHOWN]
    title, rows = "held-out examples, decoded:", list(zip(examples, evaluation.outputs, strict=False))
    if evaluation.kind == "masked":
        title, rows = f"held-out examples, {MASK} filled in:", _filled(model, task, examples)
    shown = [(visible(example.source), visible(output), visible(example.target)) for example, output in rows]
    aligned = [] if evaluation.kind == "masked" else [_cells(source) for source, _, _ in shown]
    width = min(_WIDEST, max(aligned, default=0))
    return [title, *(line for source, output, target in shown for line in example_lines(source, output, target, width))]


def example_lines(source: str, output: str, target: str, width: int) -> list[str]:
    """One example; width: columns of the source, if it fits on one line with its output."""
    room, is_right = columns(), output == target
    beside = "" if is_right else f"   (expected {target})"
    line = f"  {source}{' ' * (width - _cells(source))} → "
    if _cells(line + output + beside) <= room:
        return [line + paint(output, GREEN if is_right else RED) + beside]
    first = f"  {_cut(source, 0, room - 2)}"
    if is_right:
        return [first, f"    → {paint(_cut(output, 0, room - 6), GREEN)}"]
    differ = (i for i, (got, expected) in enumerate(zip(output, target, strict=False)) if got != expected)
    at, room = next(differ, min(len(output), len(target))), room - len(_HEADS[0])
    fits = max(len(output), len(target)) <= room or at < room * 2 // 3
    start = 0 if fits else at - room // 2  # so that the difference is in sight
    got, expected = _cut(output, start, room), _cut(target, start, room)
    mark = " " * (len(_HEADS[0]) + _cells(expected[: at - start])) + "^"
    return [first, _HEADS[0] + paint(got, RED), _HEADS[1] + expected, mark]


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
            output, target = pieces[guesses[row, at]], words[at]
            rows.append((Example(_around(task, words, at, output, target), target), output))
    return rows


def _around(task: Task, words: list[str], at: int, output: str, target: str) -> str:
    """The text around a hidden word, as much as fits on one line."""
    for count in range(_AROUND, 0, -1):
        text = task.tokenizer.join([*words[max(0, at - count) : at], MASK, *words[at + 1 : at + 1 + count]])
        if _cells(f"  {text} → {output}   (expected {target})") <= columns():
            break
    return text


def _cut(text: str, start: int, room: int) -> str:
    """So many characters of the text from start on, with … where something is left out."""
    shown = text[start : start + room]
    if start and shown:
        shown = f"…{shown[1:]}"
    return f"{shown[:-1]}…" if start + room < len(text) else shown


def _cells(text: str) -> int:
    """The columns that a text takes on a terminal: two for a wide character, none for a combining mark."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
