"""How large gradients are, as text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from npformer.explain.sizes import VOCABULARY, Sizes
from npformer.explain.update_text import row

#: Also beside the plot of a report.
READING = (
    "How to read it: parts of one kind stand close together, within a factor of ten or so, and fall slowly as the loss "
    "does. A layer near the input that lies far below the others hardly learns: its gradient vanishes. One that rises "
    "from evaluation to evaluation is about to explode: look at the learning rate and the warm-up. A sudden fall of "
    "all queries and keys alone is a softmax that is sure of one key. What counts for Adam is not the size but how it "
    "changes from step to step, since each number is divided by the size of its own gradients."
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
    yield "norms of the gradients of a fresh Transformer's parts (d = 32, 2 + 2 layers, post-LN, Xavier)"
    for part, norm in found.parts.items():
        yield f"    {part:36}{norm:9.3g}"
    yield from row("", READING, width)
    yield "\nattention with and without √d_k: 16 random keys; entries of q and k have variance 1"
    yield f"    {'d_k':>5}{'largest weight, without':>25}{'with':>7}{'gradient of a score, without':>31}{'with':>9}"
    for d, (weight, score, scaled_weight, scaled_score) in found.attention.items():
        yield f"    {d:5}{weight:25.2f}{scaled_weight:7.2f}{score:31.2e}{scaled_score:9.2e}"
    yield from row("", OF_SCALE, width)
    yield "\na gradient through 12 layers y = max(0, xW), by the deviation of W in √(2/C)"
    for gain, ratio in found.gains.items():
        word = "vanishes" if ratio < 0.1 else "explodes" if ratio > 10 else "is kept"
        yield f"    {gain:5g}{ratio:12.3g} of it arrives: it {word}"
    yield "\ndepth: the norm of the gradient of W₂ in a fresh encoder, first layer and last"
    for name, (first, last) in found.depth.items():
        yield f"    {name:20}{first:10.3g}{last:10.3g}"
    yield from row("", OF_DEPTH, width)
    ln_v = math.log(VOCABULARY)
    yield f"\ninitial values: the first loss (ln V = {ln_v:.2f}), gradients of embeddings and of the output"
    for name, (loss, embeddings, output) in found.initial.items():
        yield f"    {name:10}{loss:8.3f}{embeddings:10.3g}{output:10.3g}"
