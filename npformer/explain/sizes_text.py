"""How large gradients are, as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from npformer.explain.sizes import INITS, LAYERS, ORDERS, VOCABULARY, Sizes
from npformer.io.terminal import fill

#: Also beside the plot of a report.
READING = (
    "How to read it: parts of one kind stand close together, within a factor of ten or so, and fall slowly as the loss "
    "does. A layer near the input that lies far below the others hardly learns: its gradient vanishes. One that rises "
    "from evaluation to evaluation is about to explode: look at the learning rate and the warm-up. What counts for "
    "Adam is not the size but how it changes from step to step, since each number is divided by the size of its own "
    "gradients."
)
OF_SCALE = (
    "q·k is a sum of d_k products, so its deviation is √d_k. Without the scale one key takes all: the weights hardly "
    "depend on the scores any more, and their gradient goes."
)
OF_GAIN = "Each layer multiplies the gradient by the gain: below 1 it vanishes, at 1 it is kept, above 1 it explodes."
OF_DEPTH = (
    "With post-LN the last layer's gradient is as large at every depth, so the first updates move all layers at once: "
    "it needs a warm-up. With pre-LN the residual sum grows with every layer, the last norm divides by it, and the "
    "gradient falls about as 1/√L."
)


def sizes_text(found: Sizes, width: int) -> str:
    """The tables, and how to read each."""
    first_loss = f"{math.log(VOCABULARY):.2f}"
    parts = (
        (f"a fresh Transformer, 2 + 2 layers: the first loss (ln V = {first_loss}), norms of gradients",
         ("init", *INITS), found.parts, READING),
        ("attention with and without √d_k, 16 random keys: the largest weight, and the gradient of a score",
         ("d_k", "weight without", "score without", "weight with", "score with"), found.attention, OF_SCALE),
        (f"a gradient through {LAYERS} layers y = max(0, xW), W of deviation gain·√(2/C)",
         ("gain", "arrives"), found.gains, OF_GAIN),
        ("depth: the norm of the last W₂'s gradient in a fresh encoder",
         ("layers", *(f"{order}-LN" for order in ORDERS)), found.depth, OF_DEPTH),
    )  # fmt: skip
    return "\n\n".join(
        f"{fill(title, width)}\n{_table(head, rows)}\n{fill(text, width)}" for title, head, rows, text in parts
    )


def _table(head: Sequence[str], rows: Mapping[Any, Sequence[float]]) -> str:
    first = max(map(len, map(str, (head[0], *rows))))
    lines = [head, *((name, *(f"{value:.3g}" for value in values)) for name, values in rows.items())]
    return "\n".join(
        f"    {name!s:{first}}" + "".join(f"  {x:>{max(8, len(h))}}" for h, x in zip(head[1:], cells, strict=True))
        for name, *cells in lines
    )
