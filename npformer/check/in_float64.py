"""Runs a layer or model in float64 with the plain kernels, whatever it was built with.

Fast kernels, recordings and fused parts compute the same in other steps, which are not those of ``functional``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from npformer.backend import PLAIN, Backend, Ops
from npformer.check.checkable import is_of_layers, is_ours
from npformer.check.subject import Subject, name_of
from npformer.functional import OPERATIONS, Operation


@contextmanager
def in_float64(target: Any, checked: Subject) -> Iterator[list[Any]]:
    """Within this context target computes in float64 with plain kernels, and its gradients begin at 0.

    Yields the inputs of checked, the target's subject, in new memory. A pair that a user put into the table of
    operations stays. Layers that would compute their forward again keep their caches. Then everything is as before.
    """
    with ExitStack() as stack:
        placed = stack.enter_context(checked.at_its_point())
        checked.zero_gradients()
        if is_of_layers(target, "Layer"):
            for layer in {id(layer): layer for layer in target.all_layers()}.values():
                stack.enter_context(attributes(layer, backend=plain_backend(layer.backend)))
                if getattr(layer, "recompute", False):
                    stack.enter_context(attributes(layer, recompute=False))
            for buffer in {id(buffer): buffer for _, buffer in target.named_buffers()}.values():
                data = checked.device.array(checked.device.host(buffer.data), "float64")
                stack.enter_context(attributes(buffer, data=data))
        yield placed


def plain_backend(backend: Backend) -> Backend:
    """The same device, with float64 and plain kernels; a pair that is not the backend's own stays."""
    own_ops = backend.own_ops
    ops = {
        name: getattr(PLAIN, name) if own_ops is not None and pair is getattr(own_ops, name) else pair
        for name, pair in vars(backend.ops).items()
    }
    return replace(backend, ops=Ops(**ops), own_ops=None, dtype="float64", precision="float32", kernels="plain")


def plain_row(target: Any) -> Operation | None:
    """The row of an operation that is given by its name, its row, or a pair of npformer's kernels; else None."""
    if isinstance(target, Operation):
        return target
    if isinstance(target, str):
        return OPERATIONS.get(target)
    if not isinstance(target, tuple) or len(target) != 2:
        return None
    return OPERATIONS.get(name_of(target)) if is_ours(getattr(target[0], "func", target[0])) else None


@contextmanager
def attributes(thing: Any, **new: Any) -> Iterator[None]:
    """Within this context these attributes are others; no version is counted, since they return."""
    before = {name: vars(thing)[name] for name in new if name in vars(thing)}
    vars(thing).update(new)
    try:
        yield
    finally:
        for name in new.keys() - before.keys():
            vars(thing).pop(name, None)
        vars(thing).update(before)
