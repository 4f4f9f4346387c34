"""Whether a backward gives the same again: runs from fresh caches, with the same upstream gradient.

Atomic additions may run in another order each time. Two orders of a sum of n terms differ by at most 2(n − 1)·u of the
sum of their sizes (Higham 2002, "Accuracy and Stability of Numerical Algorithms", 4.2). So a difference up to the
judge's tolerance is rounding: 1e-10 is that bound for 450,000 terms. More is a fault, and the gradient has no verdict.

A fault in a share p of runs is seen in n runs with probability 1 − (1 − p)ⁿ. Every check makes two, and one for each
PLACES_FOR_A_RUN elements or directions, which cost the witnesses three forwards each: a twentieth of a check, if a
backward costs two. MOST_RUNS are made on request, or if such a fault may be behind a problem.
"""

from __future__ import annotations

import numpy as np

from npformer.check.checkable import unwrapped
from npformer.check.measures import NEGLIGIBLE, apart, max_abs
from npformer.check.subject import Subject, Upstream
from npformer.io.percent import percent
from npformer.io.seconds import now, since
from npformer.typing import Tensors

MOST_RUNS, MOST_SECONDS, PLACES_FOR_A_RUN = 150, 2.0, 16
CONFIRMING = 10  # runs that confirm a wrong gradient: all have the same fault, of a share p of runs, with p¹⁰


class Repeats:
    """Runs of a backward, compared with the first. noise: the largest difference. faulty: tensors without a verdict."""

    def __init__(self, checked: Subject, upstream: Upstream, gradients: Tensors, rounding: float) -> None:
        self._checked, self._upstream, self._gradients, self.rounding = checked, upstream, gradients, rounding
        self.runs, self.noise, self.worst = 1, 0.0, ""
        self.faulty: set[str] = set()

    def once(self) -> None:
        """Run once more; one run in eight finds other numbers in memory that was never written."""
        vars(self._checked)["litter"] = self.runs + 0.5 if self.runs % 8 == 1 else None
        again = self._checked.gradients(self._upstream)
        vars(self._checked)["litter"] = None
        self.runs += 1
        for name, first in self._gradients.items():
            if off := apart(first, again[name]):
                off /= self._size(name)
                self.noise, self.worst = max((self.noise, self.worst), (off, name))
                self.faulty |= {name} if off > self.rounding else set()

    def _size(self, name: str) -> float:
        sizes = {n: max_abs(g[np.isfinite(g)]) for n, g in self._gradients.items()}
        return max(sizes[name], NEGLIGIBLE * max(sizes.values())) or 1.0

    def run(self, runs: int = MOST_RUNS, seconds: float = MOST_SECONDS) -> None:
        """Run the backward until there were so many runs, a fault is seen, or so many seconds have passed."""
        began = now()
        while self.runs < runs and not self.faulty and since(began) < seconds:
            self.once()

    @property
    def problems(self) -> list[str]:
        """What is said of a fault; empty if none was seen."""
        hint = (
            f"(seen in run {self.runs}); look for a lost update, memory that is never written, or what outlives a call"
        )
        for each in map(unwrapped, (self._checked.target.forward, self._checked.target.backward)):
            for default in getattr(each, "__defaults__", None) or ():
                is_shared = isinstance(default, list | dict | set)
                hint += f"; a default of {each.__name__} is one {type(default).__name__} for all calls" * is_shared
        is_seen = self.faulty and self.noise > self.rounding
        return [f"backward is not deterministic: {self._apart()} {hint}"] if is_seen else []

    def notes(self, is_asked: bool) -> list[str]:
        """What is said of rounding; and, if runs were asked for, of the chance that a fault had to be seen."""
        chance = f"would have been seen with {percent(1 - 0.98**self.runs, 0)}"
        agreement = f"{self.runs} runs of backward agree; a fault in 2 % of runs {chance}"
        rounding = f"backward: {self._apart()}, as sums in another order do"
        return [] if self.faulty else [rounding] * bool(self.noise) + [agreement] * is_asked

    def _apart(self) -> str:
        return f"two runs from fresh caches differ by {self.noise:.1e} of the largest entry of {self.worst}"
