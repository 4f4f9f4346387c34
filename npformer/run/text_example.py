"""Texts as a batch for a trained model of any kind, with targets: what a trace of a run is made of.

    translate   src: the text        tgt_in, targets: the answer
    classify    tokens: the text     targets: the class
    tag         tokens: the text     targets: a class for each token
    masked      tokens: with [MASK]  targets: what was hidden there; nothing else counts
    causal      tokens: the text     targets: the next tokens, of the text itself, or of the answer alone

Without answers a model is held to its own: to what it writes, or finds likeliest. Its loss is then small, and the
gradient says what would make it surer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.data import BOS_ID, PAD_ID, Example, collate
from npformer.data.batches import TokenIds, class_ids, padded
from npformer.decoding import greedy
from npformer.errors import DataError, TokenError
from npformer.run.trained import Trained
from npformer.training.evaluation import likeliest

MASK = "[MASK]"
NAMED = 10  # the most unknown letters or words of a message


class TextExample(NamedTuple):
    """A batch, and what its tokens are called."""

    inputs: tuple[TokenIds, ...]  # of the model's forward
    targets: TokenIds
    tokens: dict[str, list[list[str]]]  # the pieces of each sequence of ids, [PAD] among them
    answers: tuple[str, ...]  # what the targets say; "" for the text itself, continued by nothing


def encode(trained: Trained, text: str) -> list[int]:
    """The ids of a text; each [MASK] in it stands for one hidden token.

    Raises TokenError with all letters (or words) that the vocabulary lacks, even if it has [UNK]: in training no text
    became [UNK], so the model has learned nothing of it.
    """
    tokenizer = trained.tokenizer
    if missing := [*tokenizer.coverage(text.split(MASK) if trained.kind == "masked" else [text]).missing]:
        named = ", ".join(repr(part) + (f" (U+{ord(part):04X})" if len(part) == 1 else "") for part in missing[:NAMED])
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise TokenError(
            f"expected a text of the {len(tokenizer.vocabulary):,} pieces that the model has learned (the run's "
            f"vocabulary.txt), got {named}{more} in {text[:60]!r}; leave that out, or train on data that have it"
        )
    if trained.kind != "masked":
        return tokenizer.encode(text)
    mask = tokenizer.vocabulary.id_of(MASK)
    first, *others = (tokenizer.encode(part) for part in text.split(MASK))
    return first + [token for part in others for token in (mask, *part)]


def text_example(trained: Trained, texts: Sequence[str], answers: Sequence[str] | None = None) -> TextExample:
    """The batch of these texts, padded to the longest; answers: one for each text, or None for the model's own.

    Raises DataError for another number of answers, or one that does not fit its text; TokenError for a text or a class
    that the model does not know.
    """
    if not texts or (answers is not None and len(answers) != len(texts)):
        count = 0 if answers is None else len(answers)
        raise DataError(f"answers: expected one for each of {len(texts)} texts (at least 1), got {count}")
    for text in [*texts, *([] if trained.classes else answers or [])]:
        encode(trained, text)
    kinds = {"translate": _translation, "classify": _classes, "tag": _tags, "masked": _hidden, "causal": _continued}
    return kinds[trained.kind](trained, texts, answers)


def _translation(trained: Trained, texts: Sequence[str], answers: Sequence[str] | None) -> TextExample:
    if answers is None:
        model: Any = trained.model
        src = collate([Example(text, "") for text in texts], trained.tokenizer).src
        longest = model.config.max_seq_len - (model.config.positions == "learned")  # [BOS] is read before the answer
        answers = [trained.tokenizer.decode(row) for row in greedy(model, src, longest)]
    batch = collate([Example(*pair) for pair in zip(texts, answers, strict=True)], trained.tokenizer)
    named = {"source": batch.src, "target_in": batch.tgt_in, "target_out": batch.tgt_out}
    return _example(trained, (batch.src, batch.tgt_in), batch.tgt_out, named, answers)


def _classes(trained: Trained, texts: Sequence[str], answers: Sequence[str] | None) -> TextExample:
    first = trained.tokenizer.vocabulary.id_of("[CLS]")
    tokens = padded([[first, *encode(trained, text)] for text in texts])
    ids = np.array(class_ids(answers, trained.classes)) if answers is not None else _likeliest(trained, tokens)
    example = _example(trained, (tokens,), ids, {"source": tokens}, [trained.classes[i] for i in ids])
    return example._replace(tokens=example.tokens | {"target_out": [[trained.classes[i]] for i in ids]})


def _tags(trained: Trained, texts: Sequence[str], answers: Sequence[str] | None) -> TextExample:
    rows = [encode(trained, text) for text in texts]
    tokens = padded(rows)
    if answers is None:
        ids = np.where(tokens != PAD_ID, _likeliest(trained, tokens), PAD_ID)
    else:
        tags = [class_ids(answer.split(), trained.classes) for answer in answers]
        for text, row, tag in zip(texts, rows, tags, strict=True):
            if len(row) != len(tag):
                raise DataError(f"answer: expected {len(row)} classes for {text!r}, got {len(tag)}")
        ids = padded(tags)
    names = [[trained.classes[i] for i in row] for row in ids]
    answered = [" ".join(names[i][: len(row)]) for i, row in enumerate(rows)]
    example = _example(trained, (tokens,), ids, {"source": tokens}, answered)
    return example._replace(tokens=example.tokens | {"target_out": names})


def _hidden(trained: Trained, texts: Sequence[str], answers: Sequence[str] | None) -> TextExample:
    tokens = padded([encode(trained, text) for text in texts])
    hidden = tokens == trained.tokenizer.vocabulary.id_of(MASK)
    if not hidden.any(axis=1).all():
        raise DataError(f"text: expected a {MASK} in each, in place of a hidden token, got none in one of them")
    if answers is None:
        whole = np.where(hidden, _likeliest(trained, tokens), tokens)
    else:
        whole = padded([trained.tokenizer.encode(answer) for answer in answers])
        if whole.shape != tokens.shape or not np.array_equal(whole[~hidden], tokens[~hidden]):
            raise DataError(f"answer: expected the text with one token in place of each {MASK}, got another text")
    targets = np.where(hidden, whole, PAD_ID)
    answered = [trained.tokenizer.decode(row) for row in whole]
    return _example(trained, (tokens,), targets, {"source": tokens, "target_out": targets}, answered)


def _continued(trained: Trained, texts: Sequence[str], answers: Sequence[str] | None) -> TextExample:
    read = [encode(trained, text) for text in texts]
    more = [[] for _ in texts] if answers is None else [encode(trained, answer) for answer in answers]
    rows = [ids + others for ids, others in zip(read, more, strict=True)]
    targets = padded(rows)
    if answers is not None:
        for row, ids in zip(targets, read, strict=True):
            row[: len(ids)] = PAD_ID
    tokens = padded([[BOS_ID, *row[:-1]] for row in rows])
    named = {"source": tokens, "target_out": targets}
    return _example(trained, (tokens,), targets, named, answers or [""] * len(texts))


def _likeliest(trained: Trained, tokens: TokenIds) -> TokenIds:
    model = trained.model
    return model.backend.host(likeliest(model(tokens)))  # type: ignore[call-arg]


def _example(
    trained: Trained,
    inputs: tuple[TokenIds, ...],
    targets: TokenIds,
    named: dict[str, TokenIds],
    answers: Sequence[str],
) -> TextExample:
    pieces = trained.tokenizer.vocabulary.pieces
    tokens = {name: [[pieces[i] for i in row] for row in ids.tolist()] for name, ids in named.items()}
    return TextExample(inputs, targets, tokens, tuple(answers))
