"""What a model wrote beside what was expected, piece by piece; and one example with all its attention weights.

For a translation the two texts are aligned: as few pieces as possible are replaced, left out or added
(Wagner & Fischer 1974, "The string-to-string correction problem"). For any other kind there is one answer for each
token, so the pieces stand beside each other already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.data import BOS_ID, EOS_ID, PAD_ID, Characters, Example, Task, Tokenizer
from npformer.errors import TokenError
from npformer.models import Model, Transformer
from npformer.training.evaluation import Evaluation, likeliest
from npformer.typing import HostArray, HostArrays

#: Sources of about this length show a pattern and leave the tokens legible.
WANTED_LENGTH = 10

#: The most tokens shown of a model with a single sequence: so four heads beside each other fit on a screen.
LONGEST = 20

#: The texts of masked and causal tasks that are looked at token by token.
MOST_TEXTS = 64


class Piece(NamedTuple):
    """One piece. None: nothing stands there. Neither asked nor answered: both are the piece, and asked is False."""

    expected: str | None
    got: str | None
    asked: bool = True  # False: it was given, and nothing was to be found

    @property
    def is_right(self) -> bool:
        """Whether what was found is what was expected."""
        return self.expected == self.got


class Predicted(NamedTuple):
    """One held-out example."""

    source: str
    pieces: tuple[Piece, ...]
    glue: str  # what stands between two pieces

    @property
    def is_right(self) -> bool:
        """Whether all of it is right."""
        return all(piece.is_right for piece in self.pieces)


def aligned(expected: Sequence[str], got: Sequence[str]) -> tuple[Piece, ...]:
    """The pieces of both, with the fewest differences; of equally few, the one that replaces rather than shifts."""
    rows, columns = len(expected), len(got)
    cost = [[rows + columns - i - j for j in range(columns + 1)] for i in range(rows + 1)]  # of the rest of both
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            replaced = cost[i + 1][j + 1] + (expected[i] != got[j])
            cost[i][j] = min(replaced, cost[i + 1][j] + 1, cost[i][j + 1] + 1)
    pieces = []
    i = j = 0
    while i < rows or j < columns:
        both = i < rows and j < columns
        if both and cost[i][j] == cost[i + 1][j + 1] + (expected[i] != got[j]):
            pieces.append(Piece(expected[i], got[j]))
            i, j = i + 1, j + 1
        elif i < rows and cost[i][j] == cost[i + 1][j] + 1:
            pieces.append(Piece(expected[i], None))
            i += 1
        else:
            pieces.append(Piece(None, got[j]))
            j += 1
    return tuple(pieces)


def predictions_on(model: Model, task: Task, examples: Sequence[Example], evaluation: Evaluation) -> list[Predicted]:
    """Each example with what the model made of it; at most MOST_TEXTS of a language model's."""
    if task.kind in ("masked", "causal"):
        return _token_by_token(model, task, examples[:MOST_TEXTS])
    glue = "" if task.kind == "translate" and isinstance(task.tokenizer, Characters) else " "
    predictions = []
    for (source, target), output in zip(examples, evaluation.outputs, strict=True):
        if task.kind == "translate":
            pieces = aligned(_pieces(task.tokenizer, target), _pieces(task.tokenizer, output))
        elif task.kind == "classify":
            pieces = (Piece(target, output),)
        else:
            pieces = tuple(Piece(*pair) for pair in zip(target.split(), output.split(), strict=True))
        predictions.append(Predicted(source, pieces, glue))
    return predictions


def confusions(predictions: Sequence[Predicted]) -> Counter[tuple[str | None, str | None]]:
    """How often each piece was expected and each was found in its place."""
    return Counter((piece.expected, piece.got) for one in predictions for piece in one.pieces if piece.asked)


def _pieces(tokenizer: Tokenizer, text: str) -> Sequence[str]:
    """The pieces of a text; its characters if it has one that the vocabulary lacks."""
    if isinstance(tokenizer, Characters):
        return text
    try:
        return [tokenizer.vocabulary.pieces[i] for i in tokenizer.encode(text)]
    except TokenError:
        return text


def _token_by_token(model: Model, task: Task, examples: Sequence[Example]) -> list[Predicted]:
    names = task.vocabulary.pieces
    glue = "" if isinstance(task.tokenizer, Characters) else " "
    predictions = []
    for example in examples:  # one at a time: long texts must not need more memory than training
        batch = task.collate([example])
        inputs, targets = batch[0][0], batch[-1][0]
        answers = model.backend.host(likeliest(model(batch[0])))[0]  # type: ignore[call-arg]
        pieces = tuple(
            Piece(names[t], names[f]) if t != PAD_ID else Piece(names[g], names[g], asked=False)
            for g, t, f in zip(inputs, targets, answers, strict=True)
        )
        source = example.source if task.kind == "causal" else " ".join(names[g] for g in inputs)
        predictions.append(Predicted(source, pieces, glue))
    return predictions


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
