"""Embeddings before and after training: which words become neighbours.

A Transformer reads dates word by word, in eight languages, and writes them in ISO form. No label says that
março, March and Mar. are the same month; their vectors become similar because their outputs are the same.

The table shows some months with their nearest words by cosine similarity. The picture shows the similarity of all
names of months, grouped by month.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import npformer as npf
from examples.experiments.common import accuracy, command, fit, print_table
from examples.experiments.similarity import draw_similarity
from npformer.io.percent import percent
from npformer.layers import Embedding

Array = Any
DATES = Path(__file__).parents[1] / "data" / "dates.tsv"
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
SPECIAL = ("[PAD]", "[BOS]")  # 0 and 1, of the words and of the characters


class Setting(NamedTuple):
    """The training run."""

    steps: int
    d_model: int = 64
    batch_size: int = 64


class Dates(NamedTuple):
    """The data as ids, and the vocabularies."""

    src: Array  # (n, S)
    target: Array  # (n, 10)
    words: tuple[str, ...]
    characters: tuple[str, ...]
    month_of: dict[str, int]  # name of a month -> 0 … 11


class Found(NamedTuple):
    """Tables of the words' vectors (V, C), and the accuracy."""

    dates: Dates
    before: Embedding
    after: Embedding
    right: float  # share of right characters, on held-out dates


FULL = Setting(steps=1500)
SMALL = Setting(steps=60, d_model=32, batch_size=32)


def read_dates() -> Dates:
    """examples/data/dates.tsv, sources by words, targets by characters."""
    lines = [line.split("\t") for line in DATES.read_text(encoding="utf-8").splitlines()]
    sources = [source.replace(",", "").split() for source, _ in lines]
    words = (*SPECIAL, *sorted({word for source in sources for word in source}))
    characters = (*SPECIAL, *sorted({character for _, target in lines for character in target}))
    ids, marks = ({piece: i for i, piece in enumerate(pieces)} for pieces in (words, characters))
    src = np.zeros((len(lines), max(map(len, sources))), np.int64)
    months = defaultdict(set)
    for row, (source, (_, target)) in enumerate(zip(sources, lines, strict=True)):
        src[row, : len(source)] = [ids[word] for word in source]
        for word in source:
            if any(map(str.isalpha, word)):
                months[word].add(int(target[5:7]) - 1)
    target = np.array([[marks[character] for character in target] for _, target in lines])
    month_of = {word: month.pop() for word, month in months.items() if len(month) == 1}  # "de" is in all of them
    return Dates(src, target, words, characters, month_of)


def batches(dates: Dates, rows: Array, setting: Setting) -> Iterator[tuple[Array, Array, Array]]:
    """Random batches of these rows: src, tgt_in, tgt_out."""
    rng = np.random.default_rng(0)
    for _ in range(setting.steps):
        yield shifted(dates, rng.choice(rows, setting.batch_size))


def shifted(dates: Dates, rows: Array) -> tuple[Array, Array, Array]:
    """src, tgt_in and tgt_out of these rows."""
    target = dates.target[rows]
    return dates.src[rows], np.concatenate([np.ones_like(target[:, :1]), target[:, :-1]], axis=1), target


def measure(setting: Setting) -> Found:
    """Train on nine dates in ten."""
    dates = read_dates()
    config = npf.TransformerConfig(
        src_vocab_size=len(dates.words), tgt_vocab_size=len(dates.characters), d_model=setting.d_model, num_heads=4,
        d_ff=2 * setting.d_model, num_encoder_layers=1, num_decoder_layers=1, dropout=0.1,
    )  # fmt: skip
    backend = npf.get_backend("numpy", kernels="numpy", threads=1)
    model, fresh = (npf.Transformer(config, backend=backend, seed=0) for _ in range(2))
    kept = len(dates.src) // 10
    schedule = npf.WarmupCosine(3e-3, setting.steps // 10, setting.steps)
    fit(model, batches(dates, np.arange(kept, len(dates.src)), setting), lr=schedule)
    *inputs, target = shifted(dates, np.arange(min(kept, 500)))
    return Found(dates, fresh.src_embedding, model.src_embedding, accuracy(model(*inputs), target))


def neighbours(embedding: Embedding, dates: Dates, word: str, k: int = 1) -> list[str]:
    """The k words whose vectors are most similar to the word's."""
    ids, _ = embedding.nearest(dates.words.index(word), k)
    return [dates.words[i] for i in ids]


def same_month(embedding: Embedding, dates: Dates) -> float:
    """The share of names of months whose nearest word is another name of the same month."""
    month = dates.month_of
    hits = [month.get(neighbours(embedding, dates, word)[0]) == month[word] for word in month]
    return float(np.mean(hits))


def similarities(embedding: Embedding, ids: list[int]) -> Array:
    """Cosine similarities (n, n) of these words."""
    rows = embedding.weight.data[ids]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the table, draw the picture."""
    dates, before, after, right = measure(setting)
    print(f"characters right, of dates not trained on: {percent(right)}")
    shown = [word for word in ("March", "août", "Dezember", "juni", "septiembre") if word in dates.words]
    rows = [
        (word, ", ".join(neighbours(before, dates, word, 3)), ", ".join(neighbours(after, dates, word, 3)))
        for word in shown
    ]
    print_table(["nearest words", "before", "after"], rows)
    share = {name: same_month(table, dates) for name, table in (("before", before), ("after", after))}
    print("nearest word names the same month: " + ", ".join(f"{percent(v, 0)} {name}" for name, v in share.items()))
    words = sorted(dates.month_of, key=lambda word: (dates.month_of[word], word))
    ids, groups = [dates.words.index(word) for word in words], [MONTHS[dates.month_of[word]] for word in words]
    maps = [
        (f"{name} training: {percent(share[name], 0)} nearest to their month", similarities(table, ids))
        for name, table in (("before", before), ("after", after))
    ]
    note = f"{len(words)} names of months in eight languages, each a row and a column; frames: one month"
    draw_similarity(maps, groups, path, "Embeddings of months", note)


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("embeddings", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
