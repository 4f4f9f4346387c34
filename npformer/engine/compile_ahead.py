"""Compiling the kernels of a model before their first call, on backends whose kernels have to be compiled.

Only the layers of a model know which operations they call. So one token is sent through the model, with plain kernels
that record their names. A model with layers that are not declared static is not run here; each of its kernels is
compiled by its first call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from npformer.backend import PLAIN, Ops, Pair
from npformer.engine.capabilities import capabilities_of
from npformer.engine.recorded_decode import is_recordable
from npformer.engine.replica import gradient_replica
from npformer.engine.static import has_own_ops, is_static
from npformer.layers import RandomKey
from npformer.models import Model

#: The kernels of a training step besides the operations of its model; "recording" only if steps are recorded.
OF_A_STEP = ("cross_entropy.forward", "cross_entropy.backward", "adam", "recording")
_ready: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def compile_ahead(model: Model, *purposes: str) -> None:
    """Compile the kernels that the model needs for "training", "decoding" or "beams" (beam search); once per model."""
    engine, done = capabilities_of(model), _ready.setdefault(model, set())
    if engine.prepare is None or done.issuperset(purposes) or not is_static(model):
        return
    done.update(purposes)
    calls = []
    if "training" in purposes:
        for name in operations_of(model, RandomKey(seed=0, step=0)):
            calls += [f"{name}.forward", f"{name}.backward"]
        calls += OF_A_STEP if has_own_ops(model) else OF_A_STEP[:-1]
    if not {"decoding", "beams"}.isdisjoint(purposes):
        calls += [f"{name}.forward" for name in operations_of(model, key=None)]
        calls += ["decoding", "recording", *purposes] if is_recordable(model) else []  # type: ignore[arg-type]
    engine.prepare(calls)


def operations_of(model: Model, key: RandomKey | None) -> set[str]:
    """The names of the operations that the model's forward calls with this key; backward calls the same ones."""
    seen: set[str] = set()
    replica, noting = gradient_replica(model), replace(model.backend, ops=_noting(seen))
    for layer in replica.all_layers():
        layer.backend = noting
    other = int(model.config.pad_id == 0)  # a token id that is not the pad, if there is one
    inputs = [np.full((1, 1), min(other, ids.below - 1)) for ids in model.config.batch[:-1]]
    with np.errstate(all="ignore"):
        replica.forward(*inputs, key=key, checked=True)
    return seen


def _noting(seen: set[str]) -> Ops:
    """The plain operations, each of which adds its name to seen."""

    def noted(name: str, pair: Pair) -> Pair:
        def forward(*inputs: Any, **options: Any) -> tuple[Any, Any]:
            y, cache = pair.forward(*inputs, **options)
            if y is not inputs[0]:  # dropout of nothing calls no kernel
                seen.add(name)
            return y, cache

        return Pair(forward, pair.backward)

    return Ops(**{name: noted(name, pair) for name, pair in vars(PLAIN).items()})
