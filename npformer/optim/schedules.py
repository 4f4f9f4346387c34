"""Learning rates as functions of the step, which counts updates from 1; step 0 is the limit before the first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from npformer.errors import ConfigError

#: step (1, 2, …) -> learning rate
Schedule: TypeAlias = Callable[[int], float]


@dataclass(frozen=True)
class Constant:
    """The same rate at every step."""

    lr: float

    def __call__(self, step: int) -> float:
        return self.lr


@dataclass(frozen=True)
class Noam:
    """factor·d_model^(−1/2)·min(step^(−1/2), step·warmup_steps^(−3/2)): linear warm-up, then decay as 1/√step.

    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 3.
    """

    d_model: int
    warmup_steps: int = 4000
    factor: float = 1.0

    def __post_init__(self) -> None:
        if self.d_model < 1 or self.warmup_steps < 1:
            raise ConfigError(f"Noam: expected d_model >= 1 and warmup_steps >= 1, got {self}")

    def __call__(self, step: int) -> float:
        if step == 0:
            return 0.0
        return float(self.factor * self.d_model**-0.5 * min(step**-0.5, step * self.warmup_steps**-1.5))


@dataclass(frozen=True)
class WarmupCosine:
    """Linear warm-up to peak in warmup_steps, then cosine decay to floor at total_steps, then constant.

    Source: the cosine, Loshchilov & Hutter 2017, arXiv:1608.03983, eq. 5.
    """

    peak: float
    warmup_steps: int
    total_steps: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.warmup_steps % 1:  # a rate stands where steps belong
            raise ConfigError(
                f"warmup_steps: expected a number of steps, got {self.warmup_steps}; the rate comes first: "
                f"WarmupCosine(peak={self.warmup_steps}, warmup_steps={self.peak}, total_steps={self.total_steps})"
            )
        if not 0 <= self.warmup_steps <= self.total_steps:
            raise ConfigError(
                f"warmup_steps: expected 0 <= warmup_steps <= total_steps={self.total_steps}, got {self.warmup_steps}"
            )

    def __call__(self, step: int) -> float:
        if 0 < self.warmup_steps >= step:
            return self.peak * step / self.warmup_steps
        done = min(1.0, (step - self.warmup_steps) / max(1, self.total_steps - self.warmup_steps))
        return self.floor + (self.peak - self.floor) * 0.5 * (1 + math.cos(math.pi * done))
