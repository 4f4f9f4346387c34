"""The file of the last lesson: a pre-LN encoder layer with one fault in its backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.lab.grader.exercises import find
from npformer.lab.grader.parts import FUNCTIONS, TEXTS
from npformer.lab.grader.templates import pair_source

EXERCISE = "encoder_layer_pre"
#: The fault: x is both query and memory of the self-attention, and one of the two gradients is lost.
RIGHT = "layer_norm_backward(dqueries + dmemory, norm1_cache)"
WRONG = "layer_norm_backward(dqueries, norm1_cache)"
FAULT = (RIGHT, WRONG)
#: Another fault, in the last line of the backward, which spoils the fewest gradients.
LAST_FAULT = ("dx = dstream + dnorm1", "dx = dnorm1")

HEAD = '''"""An encoder layer, pre-LN, whose backward has one fault. Find it, mend it.

    npformer grade {name}                    which gradients are wrong?
    npformer grade parts.py --template parts          the parts that this file imports, for
    npformer gradcheck --model {name}        which names the line
"""'''

BUILD = '''def build():
    """The pair and its inputs, for npformer gradcheck --model."""
    rng = np.random.default_rng(0)
    width, hidden = 4, 6

    def drawn(*shape):
        return rng.normal(size=shape)

    attention = {f"w{name}": drawn(width, width) for name in "qkvo"} | {f"b{name}": drawn(width) for name in "qkvo"}
    feed_forward = {"w1": drawn(width, hidden), "b1": drawn(hidden), "w2": drawn(hidden, width), "b2": drawn(width)}
    norms = {name: {"gamma": drawn(width), "beta": drawn(width)} for name in ("norm1", "norm2")}
    params = {"attention": attention, "feed_forward": feed_forward, **norms}
    return (encoder_layer_pre_forward, encoder_layer_pre_backward), (drawn(2, 3, width), params, 2)
'''


def broken(name: str) -> str:
    """The text of the file; name: what it will be called."""
    right = pair_source(find(EXERCISE))
    assert right.count(RIGHT) == 1  # of the answer, so that there is exactly one fault
    return f"{HEAD.format(name=name)}\n\n{right.replace(RIGHT, WRONG)}\n\n\n{BUILD}"


def broken_case(right: str, wrong: str) -> Any:
    """What build() in the file returns, with the fault that puts wrong in the place of right."""
    made: dict[str, Any] = {**FUNCTIONS, "np": np}
    text = TEXTS[f"{EXERCISE}_backward"]
    assert text.count(right) == 1
    exec(f"{text.replace(right, wrong)}\n\n\n{BUILD}", made)
    return made["build"]()
