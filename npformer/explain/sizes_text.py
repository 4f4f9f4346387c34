"""How large gradients are, as text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from npformer.explain.sizes import INITS, LAYERS, ORDERS, VOCABULARY, Sizes
from npformer.explain.update_text import row

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
OF_DEPTH = (
    "With post-LN the last layer's gradient is as large at every depth, so the first updates move all layers at once: "
    "it needs a warm-up. With pre-LN the residual sum grows with every layer, the last norm divides by it, and the "
    "gradient falls about as 1/√L."
)


def sizes_lines(found: Sizes, width: int) -> Iterator[str]:
    """The tables, and how to read each."""
    yield f"a fresh Transformer, 2 + 2 layers: the first loss (ln V = {math.log(VOCABULARY):.2f}), norms of gradients"
    yield f"    {'init':34}" + "".join(f"{init:>9}" for init in INITS)
    for part, values in found.parts.items():
        yield f"    {part:34}" + "".join(f"{value:9.3g}" for value in values)
    yield from row("", READING, width)
    yield "\nattention with and without √d_k: 16 random keys; entries of q and k have variance 1"
    yield f"    {'d_k':>5}{'largest weight, without':>25}{'with':>7}{'gradient of a score, without':>31}{'with':>9}"
    for d, (weight, score, scaled_weight, scaled_score) in found.attention.items():
        yield f"    {d:5}{weight:25.2f}{scaled_weight:7.2f}{score:31.2e}{scaled_score:9.2e}"
    yield from row("", OF_SCALE, width)
    yield f"\na gradient through {LAYERS} layers y = max(0, xW), by the deviation of W in √(2/C)"
    for gain, share in found.gains.items():
        word = "vanishes" if share < 0.1 else "explodes" if share > 10 else "is kept"
        yield f"    {gain:5g}{share:12.3g} of it arrives: it {word}"
    yield "\ndepth: the norm of the last W₂'s gradient in a fresh encoder"
    yield "    layers" + "".join(f"{order + '-LN':>10}" for order in ORDERS)
    for layers, values in found.depth.items():
        yield f"    {layers:6}" + "".join(f"{value:10.3g}" for value in values)
    yield from row("", OF_DEPTH, width)
