"""What short training runs with and without a bug show: same data, same initial weights, same dropout.

The task is to reverse a word of up to six of eight letters, with a model that two cores train in seconds. Both runs are
made again from other weights, on other words, to tell the effect from chance. A bug has the same effect in a large
model, only later and at a higher price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from npformer.io.percent import finite, percent

STEPS = 250
#: Where a loss ends, seen from others.
PLACES = ABOVE, AMONG, BELOW = "above", "among", "below"


class End(NamedTuple):
    """How a run ends: the mean loss of its last tenth, and its share of held-out words that it decodes rightly."""

    loss: float
    exact_match: float

    def __str__(self) -> str:
        loss = f"loss {self.loss:.3f}" if math.isfinite(self.loss) else "loss not a number"
        found = f", {percent(self.exact_match, 0)} of held-out words right" if math.isfinite(self.exact_match) else ""
        return loss + found


class TrainingCourse(NamedTuple):
    """The losses of one run, in nats per token, NaN after a failure; and how runs end with other seeds, its own first.

    The ends of three seeds all lie above others, or all below, by chance once in ten.
    """

    losses: tuple[float, ...]
    ends: tuple[End, ...]
    trouble: str = ""  # the exception, if one was raised

    def __str__(self) -> str:
        if self.trouble:
            return f"{self.ends[0]}; {self.trouble}"
        if not all(math.isfinite(value) for end in self.ends for value in end):
            return str(self.ends[0])
        losses, matches = zip(*self.ends, strict=True)
        low, high = percent(min(matches), 0).removesuffix(" %"), percent(max(matches), 0)
        found = f"loss {min(losses):.3f} to {max(losses):.3f}, {low} to {high} of held-out words right"
        return f"{found}, over {len(self.ends)} seeds"

    def to_dict(self) -> dict[str, Any]:
        """How it ends, for JSON; NaN becomes None."""
        seeds = [{name: finite(value) for name, value in end._asdict().items()} for end in self.ends]
        return seeds[0] | {"trouble": self.trouble, "seeds": seeds}


class Comparison(NamedTuple):
    """The runs without and with the bug."""

    right: TrainingCourse
    wrong: TrainingCourse

    @property
    def place(self) -> str:
        """Where the losses with the bug end: all above, all below, or among those without it."""
        return _place([end.loss for end in self.wrong.ends], [end.loss for end in self.right.ends])

    @property
    def verdict(self) -> str:
        """What training tells of the bug, in a sentence."""
        missed = _place(*([1 - end.exact_match for end in course.ends] for course in (self.wrong, self.right)))
        if self.place != AMONG:
            alone = "" if missed != AMONG else ". The words do not show it, and for losses chance does so once in ten"
            return f"Each loss with the bug ends {self.place} each without it{alone}."
        if missed != AMONG:
            more = "more" if missed == ABOVE else "fewer"
            return f"The losses do not show the bug, the words do: each run with it misses {more} than each without it."
        return (
            "Runs with the bug end among those without it, so training this short and this small does not show it. "
            "Such bugs get shipped. It takes a check to find them."
        )


def _place(wrong: Sequence[float], right: Sequence[float]) -> str:
    """A run that breaks off has no number, and counts as above."""
    wrong = [number if math.isfinite(number) else math.inf for number in wrong]
    return ABOVE if min(wrong) > max(right) else BELOW if max(wrong) < min(right) else AMONG
