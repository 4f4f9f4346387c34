"""What the heads of a trained Transformer attend to; it translates dates in eight languages to ISO form, by character.

While the model writes the year, does a cross-attention head attend to the year? For each cross-attention head, the
table gives the weight on a field of the source while that field is being written. For each encoder head, it gives the
weight of a character on the previous one, on itself, on the next one, and on its whole field. A head with weight 1
does nothing else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import npformer as npf
from examples.experiments.common import accuracy, command, fit, print_table
from npformer.data import BOS_ID, EOS_ID, Example, PairsTask
from npformer.data.batches import collate
from npformer.io.percent import percent
from npformer.see.plot import draw_attention

Array = Any
DATES = Path(__file__).parents[1] / "data" / "dates.tsv"
FIELDS = {"year": slice(0, 4), "month": slice(5, 7), "day": slice(8, 10)}  # of 1987-03-05
NEIGHBOURS = {"one before": -1, "itself": 0, "one behind": 1}
OWN = "its own field"


class Setting(NamedTuple):
    """The training run, and the number of held-out dates to examine."""

    steps: int
    d_model: int = 64
    num_heads: int = 4
    num_layers: int = 2
    batch_size: int = 64
    examples: int = 300


class Found(NamedTuple):
    """A trained model and the weights of its heads."""

    model: npf.Transformer
    task: PairsTask
    right: float  # share of right held-out characters
    shares: dict[str, dict[str, list[float]]]  # attention -> attended position -> weight, by head


FULL = Setting(steps=2000)
SMALL = Setting(steps=25, d_model=16, num_heads=2, num_layers=1, batch_size=16, examples=20)


def source_fields(source: str) -> dict[str, slice]:
    """The positions of year, month and day: four digits, the longest word, one or two digits."""
    words = max(re.finditer(r"[^\W\d]+", source), key=lambda match: len(match.group()))
    year = re.search(r"\d{4}", source)
    day = re.search(r"(?<!\d)\d{1,2}(?!\d)", source)
    if year is None or day is None:
        raise ValueError(f"{source!r}: expected a year of four digits and a day")
    return {"year": slice(*year.span()), "month": slice(*words.span()), "day": slice(*day.span())}


def measure(setting: Setting) -> Found:
    """Train, then examine held-out dates."""
    task = PairsTask.from_tsv(DATES, seed=0)
    size = len(task.vocabulary)
    config = npf.TransformerConfig(
        src_vocab_size=size, tgt_vocab_size=size, d_model=setting.d_model, num_heads=setting.num_heads,
        d_ff=4 * setting.d_model, num_encoder_layers=setting.num_layers, num_decoder_layers=setting.num_layers,
        dropout=0.1,
    )  # fmt: skip
    model = npf.Transformer(config, backend=npf.get_backend("numpy", kernels="numpy", threads=1))
    schedule = npf.WarmupCosine(2e-3, setting.steps // 10, setting.steps)
    fit(model, (task.batch(step + 1, setting.batch_size) for step in range(setting.steps)), lr=schedule)
    held_out = task.held_out(setting.examples)
    test = collate(held_out, task.tokenizer)
    right = accuracy(model(test.src, test.tgt_in), test.tgt_out)
    return Found(model, task, right, shares_of(held_out, model.attention_weights(test.src, test.tgt_in)))


def shares_of(examples: list[Example], weights: dict[str, Array]) -> dict[str, dict[str, list[float]]]:
    """What each head attends to: fields in cross-attention, neighbours and fields in the encoder."""
    by_name: dict[str, dict[str, list[float]]] = {}
    for name, maps in weights.items():  # (B, H, T, S)
        if "cross" in name:
            by_name[name] = {field: _mean(_on_field(examples, maps, field)) for field in FIELDS}
        elif name.startswith("encoder"):
            by_name[name] = {word: _mean(_on_neighbour(examples, maps, by)) for word, by in NEIGHBOURS.items()}
            by_name[name][OWN] = _mean(_on_own_field(examples, maps))
    return by_name


def _on_field(examples: list[Example], maps: Array, field: str) -> Iterator[Array]:
    """For each example (H,): the weight on the field's characters while the field is written."""
    for example, heads in zip(examples, maps, strict=True):
        yield heads[:, FIELDS[field], source_fields(example.source)[field]].sum(-1).mean(-1)


def _on_neighbour(examples: list[Example], maps: Array, by: int) -> Iterator[Array]:
    """For each example (H,): the weight of each character on the one at the given offset."""
    for example, heads in zip(examples, maps, strict=True):
        length = len(example.source)
        yield np.diagonal(heads[:, :length, :length], by, axis1=1, axis2=2).mean(-1)


def _on_own_field(examples: list[Example], maps: Array) -> Iterator[Array]:
    """For each example (H,): the weight of year, month and day on themselves, summed over each field's characters."""
    for example, heads in zip(examples, maps, strict=True):
        places = source_fields(example.source).values()
        yield np.mean([heads[:, place, place].sum(-1).mean(-1) for place in places], axis=0)


def _mean(rows: Iterator[Array]) -> list[float]:
    return np.mean(list(rows), axis=0).tolist()  # type: ignore[no-any-return]


def experiment(setting: Setting, path: Path) -> None:
    """Measure, print the tables, draw the picture of one held-out date."""
    model, task, right, shares = measure(setting)
    print(f"held-out characters right: {percent(right)}")
    for words, kind in ((list(FIELDS), "cross"), ([*NEIGHBOURS, OWN], "encoder")):
        print(f"\nweight on {', '.join(words)}:")
        rows = [
            (f"{name} head {head + 1}", *(by_word[word][head] for word in words))
            for name, by_word in shares.items()
            if kind in name
            for head in range(setting.num_heads)
        ]
        print_table(["", *words], rows)
    example = next(e for e in task.held_out() if 12 <= len(e.source) <= 16)
    src = np.array([[*task.tokenizer.encode(example.source), EOS_ID]])
    tgt_in = np.array([[BOS_ID, *task.tokenizer.encode(example.target)]])
    weights = {name: w[0] for name, w in model.attention_weights(src, tgt_in).items() if name in shares}
    tokens = ([task.vocabulary.pieces[i] for i in ids[0]] for ids in (src, tgt_in))
    draw_attention(weights, *tokens, path, f"{example.source} → {example.target}")


def main(argv: list[str] | None = None) -> int:
    """The command."""
    return command("heads", __doc__, experiment, FULL, SMALL, argv)


if __name__ == "__main__":
    sys.exit(main())
