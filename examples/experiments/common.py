"""Shared by the experiments: two settings of each, a table, and a training loop of a few lines."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import npformer as npf
from npformer.layers.batch_norm import statistics_in
from npformer.optim import Schedule, clip_by_global_norm

Array = Any
Setting = TypeVar("Setting")


def command(
    name: str, about: str, experiment: Callable[[Any, Path], None], full: Setting, small: Setting, argv: Any = None
) -> int:
    """Run the experiment as the command line says. Returns 0."""
    parser = argparse.ArgumentParser(
        prog=f"python -m examples.experiments.{name}",
        description=about.partition("\n")[0],
        epilog=f"example: python -m examples.experiments.{name} --small",
    )
    parser.add_argument("--small", action="store_true", help="a quick setting of a few seconds, to show the procedure")
    parser.add_argument("--out", type=Path, default=Path(f"{name}.svg"), help="the picture to write (%(default)s)")
    options = parser.parse_args(argv)
    start = time.perf_counter()
    experiment(small if options.small else full, options.out)
    print(f"\n{options.out}, after {time.perf_counter() - start:.0f} s")
    return 0


def print_table(headings: Sequence[object], rows: Iterable[Sequence[object]]) -> None:
    """Columns; the first is aligned left, the others right."""
    lines = [[write(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headings))]
    for number, line in enumerate(lines):
        rest = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        print("  ".join([line[0].ljust(widths[0]), *rest]).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def write(cell: object) -> str:
    """Numbers with three significant digits, everything else unchanged."""
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def fit(
    model: Any,
    batches: Iterable[Sequence[Array]],
    *,
    lr: float | Schedule,
    seed: int = 0,
    clip_norm: float | None = 1.0,
) -> list[float]:
    """Train on batches (inputs …, targets), one step each, by Adam. Returns the losses in nats per token.

    The model has an arena, ``forward(*inputs, key=…) -> (logits, cache)`` and ``backward(dlogits, cache)``;
    targets of 0 are not counted.
    """
    optimizer = npf.Adam(model.arena)
    losses = []
    for number, (*inputs, targets) in enumerate(batches):
        logits, cache = model.forward(*inputs, key=npf.RandomKey(seed, step=number))
        cross_entropy = model.ops.cross_entropy
        loss, loss_cache = cross_entropy.forward(logits, targets, 0, 0.0)
        statistics = list(statistics_in(cache))  # BatchNorm's statistics; backward empties the cache
        model.zero_grad()
        model.backward(cross_entropy.backward(1.0, loss_cache), cache)
        if clip_norm is not None:
            clip_by_global_norm(model.arena, clip_norm)
        optimizer.step(lr(number + 1) if callable(lr) else lr)
        for seen in statistics:
            seen.norm.remember(seen)
        losses.append(float(loss))
    return losses


def accuracy(logits: Array, targets: Array) -> float:
    """The share of counted targets (not 0) to which the logits (…, V) give the highest score."""
    counted = targets != 0
    return float((logits.argmax(axis=-1) == targets)[counted].mean())
