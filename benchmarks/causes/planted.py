"""What is planted in one training step, and the cause that must be named first for it.

Each kind is planted for five seeds, in a small model that reverses words. At least 35 of the 40 must be named first. Of
20 sound steps, at which nothing is planted, at most one may be accused of anything.
"""

from typing import NamedTuple

SEEDS = range(5)
SOUND_RUNS = 20
LEAST_NAMED, MOST_ACCUSED = 35, 1


class Kind(NamedTuple):
    """A kind of fault, and the name of its cause."""

    cause: str  # that must be named first
    planted: str  # before a step of a sound run


KINDS = (
    Kind("labels", "the targets of three sequences of the batch are exchanged for wrong letters"),
    Kind("rate", "the step is made at ten times the rate of its schedule"),
    Kind("warm-up", "the second step of a fresh model is made at the full rate, 0.1, where a warm-up is needed"),
    Kind("clipping", "the gradient is clipped to a hundredth of its usual norm, for this step alone"),
    Kind("norm", "the gains of one normalisation are 20 times what they were"),
    Kind("moments", "both of Adam's moments are 0, as after a resume that lost them, but t goes on"),
    Kind("decay", "AdamW's weight decay takes a third of every matrix"),
    Kind("attention", "the queries of one attention are 30 times what they were, so that its softmax saturates"),
)
