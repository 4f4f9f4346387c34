"""Adam and AdamW: each number gets its own step length from the history of its gradient.

    m ← β₁m + (1 − β₁)g            mean of the gradient
    v ← β₂v + (1 − β₂)g²           mean of its square
    p ← p − lr·m̂/(√v̂ + ε)          m̂ = m/(1 − β₁ᵗ),  v̂ = v/(1 − β₂ᵗ)

t counts updates from 1. The hats are bias corrections, needed because m and v start at 0. Written out,

    m_t = (1 − β₁)·Σ_i β₁^(t−i) g_i        i = 1 … t

and the weights of g_1 … g_t sum to (1 − β₁)(1 − β₁ᵗ)/(1 − β₁) = 1 − β₁ᵗ, not to 1. Divided by that sum, m̂ is a weighted
mean of gradients, and v̂ likewise of squares. If all gradients are g, then m̂ = g, v̂ = g², and each step has the length
lr, ε apart, from the first on. Without the corrections step t would have (1 − β₁ᵗ)/√(1 − β₂ᵗ) times that length: with
β = (0.9, 0.98) 0.71 at t = 1, 1.55 at t = 14; with β = (0.9, 0.999) 3.2 at t = 1, 6.6 at t = 12.

AdamW also shrinks the parameter, p ← p − lr·λ·p, separately from the gradient, so that the decay is not divided
by √v̂. Here lr is the rate of this step, as in PyTorch. The paper decays by the schedule's multiplier times λ, without
the peak rate: its λ is PyTorch's times the peak.

Source: Kingma & Ba 2015, arXiv:1412.6980, algorithm 1; Loshchilov & Hutter 2019, arXiv:1711.05101, algorithm 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from npformer.backend import Arena
from npformer.errors import ConfigError, DeviceError
from npformer.functional.arrays import namespace
from npformer.optim.blocks import overlap
from npformer.typing import Array


class Rates(NamedTuple):
    """The numbers that change from one update to the next; in device memory, an array (3,)."""

    lr: float
    bias_correction1: float  # 1/(1 − β₁ᵗ)
    bias_correction2: float  # 1/(1 − β₂ᵗ)


class Adam:
    """Adam over an arena: one pass for all parameters.

    lr is the default of ``step``. Raises ConfigError for lr, betas or eps that make no sense.
    """

    def __init__(
        self, arena: Arena, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.98), eps: float = 1e-9
    ) -> None:
        if not isinstance(arena, Arena):
            raise ConfigError(f"arena: expected a model's arena, as in Adam(model.arena), got {type(arena).__name__}")
        if not 0 <= lr < math.inf:
            raise ConfigError(f"lr: expected a finite number >= 0, got {lr}")
        if not (0 <= betas[0] < 1 and 0 <= betas[1] < 1):
            raise ConfigError(f"betas: expected two numbers with 0 <= beta < 1, got {betas}")
        if not eps > 0:
            raise ConfigError(f"eps: expected a number > 0, got {eps}")
        self.arena = arena
        self.lr = lr
        self.betas = betas
        self.eps = eps
        self.weight_decay = 0.0
        self.t = 0  # updates made so far
        self.m: Array = arena.backend.zeros((arena.size,))
        self.v: Array = arena.backend.zeros((arena.size,))
        self._held = slice(0, arena.size)  # the part of the arena whose moments are here
        self._whole: Callable[[Array], Array] = _unchanged  # from these to all

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: lr {self.lr:g}, betas {self.betas}, {self.t} updates made>"

    @property
    def is_whole(self) -> bool:
        """Whether it keeps the moments of the whole arena: nothing told it to hold a part."""
        return self._whole is _unchanged

    def hold(self, part: slice, whole: Callable[[Array], Array]) -> None:
        """Keep the moments of a part of the arena alone; whole(moments of the part) asks others for all, (n,)."""
        before, size = (self.m, self.v), part.stop - part.start
        self.m, self.v = self.arena.backend.zeros((size,)), self.arena.backend.zeros((size,))
        self.m[...], self.v[...] = (moment[part] for moment in before)
        self._held, self._whole = part, whole

    def step(self, lr: float | None = None, parts: Sequence[slice] | None = None) -> None:
        """Update the values from the gradients in the arena; frozen segments stay unchanged.

        parts: only these parts of the arena, each by itself.
        """
        self.t += 1
        lr = self.lr if lr is None else lr
        for run in self.arena.runs(decaying=self.weight_decay > 0):
            rate = lr * run.lr_scale
            decay = rate * self.weight_decay * run.weight_decay
            for where in [run.where] if parts is None else [overlap(run.where, part) for part in parts]:
                if where.start < where.stop:
                    self._update(rate, decay, where)

    def rates(self, lr: float, t: int) -> Rates:
        """The numbers of update t at this learning rate."""
        return Rates(lr, 1 / (1 - self.betas[0] ** t), 1 / (1 - self.betas[1] ** t))

    def step_on_device(self, rates: Array, clip_norm: float | None = None) -> Array | None:
        """Clip and ``step`` with rates (3,) in device memory. The code that writes them also counts t.

        Returns the gradient's norm () before clipping, None without clipping. The arena's gradients stay unchanged.
        """
        engine, norm, shrink = self.arena.backend.engine, None, None
        if engine is None or (updates := engine.updates) is None:
            raise DeviceError(f"adam: expected a backend that reads rates from its memory, got {self.arena.backend}")
        if clip_norm is not None:
            norm, shrink = updates.gradient_norm(self.arena, None if math.isinf(clip_norm) else clip_norm)
        updates.adam(self.arena, self.m, self.v, rates, self.betas, self.eps, self.weight_decay, shrink)
        return norm

    def _update(self, lr: float, decay: float, where: slice) -> None:
        (beta1, beta2), engine = self.betas, self.arena.backend.engine
        p, g = self.arena.values[where], self.arena.grads[where]
        held = slice(where.start - self._held.start, where.stop - self._held.start)
        m, v = self.m[held], self.v[held]
        if engine is not None and engine.adam_update is not None:  # the same, faster
            engine.adam_update(p, g, m, v, lr, self.betas, self.eps, self.t, decay)
            return
        m *= beta1
        m += (1 - beta1) * g
        v *= beta2
        v += (1 - beta2) * (g * g)
        if decay:
            p *= 1 - decay
        root = namespace(v).sqrt(v * (1 / (1 - beta2**self.t)))
        p -= (lr / (1 - beta1**self.t)) * m / (root + self.eps)

    def moments(self) -> dict[str, Array]:
        """ "first.NAME" and "second.NAME" -> views of the moments of each parameter, for checkpoints.

        Every rank that holds a part calls it; then they are views of copies.
        """
        view = self.arena.view
        flats = {"first": self._whole(self.m), "second": self._whole(self.v)}
        return {f"{kind}.{s.name}": view(flat, s) for kind, flat in flats.items() for s in self.arena.segments}


def _unchanged(flat: Array) -> Array:
    """All moments, where they are all here."""
    return flat


class AdamW(Adam):
    """Adam with decoupled weight decay; each segment has a factor for it (0 for biases and gains)."""

    def __init__(
        self,
        arena: Arena,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-9,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(arena, lr, betas, eps)
        if not weight_decay >= 0:
            raise ConfigError(f"weight_decay: expected a number >= 0, got {weight_decay}")
        self.weight_decay = weight_decay
