"""Finds the input to which a mask applies, and fills the hidden positions with other numbers."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np

from npformer.functional import AttentionMask
from npformer.proof.invariants.probe import Probe
from npformer.typing import HostArray

POISON = 1e3  # finite, since 0·∞ and 0·NaN are NaN in every product, whatever the mask


class Governed(NamedTuple):
    """A mask, the inputs (..., S, C) whose steps are its keys, and whether the queries are those same steps."""

    mask: AttentionMask
    inputs: tuple[str, ...]
    is_self: bool


def governed(probe: Probe) -> list[Governed]:
    """Every mask of the probe's target, with the inputs to which it applies."""
    given = {**probe.inputs, **probe.options}
    found = [_inputs_of(name, mask, probe) for name, mask in given.items() if isinstance(mask, AttentionMask)]
    if not found and getattr(probe.target, "causal", False) is True and probe.float_inputs:
        return [Governed(AttentionMask(causal=True), (probe.float_inputs[0],), True)]
    return [one for one in found if one.inputs]


def _inputs_of(name: str, mask: AttentionMask, probe: Probe) -> Governed:
    """Keys and values; the memory; or the layer's own input, which then holds the queries as well."""
    if {"k", "v"} <= set(probe.float_inputs):
        return Governed(mask, ("k", "v"), False)
    has_memory = "memory" in probe.float_inputs
    if name == "memory_mask" or (has_memory and not _tells_masks_apart(probe)):
        return Governed(mask, ("memory",) if has_memory else (), False)
    return Governed(mask, tuple(probe.float_inputs[:1]), True)


def _tells_masks_apart(probe: Probe) -> bool:
    """Whether forward has a memory_mask of its own; if not, the one mask of a cross-attention is the memory's."""
    parameters = inspect.signature(probe.function("forward")).parameters
    return "memory_mask" in parameters or any(p.kind == inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def poisoned(x: HostArray, hidden: HostArray, rng: np.random.Generator) -> HostArray:
    """x (B, ..., S, C) with random numbers of size 1e3 wherever hidden (B, S)."""
    return with_steps(x, hidden, POISON * rng.normal(size=x.shape))


def with_steps(x: HostArray, hidden: HostArray, others: Any = 0.0) -> HostArray:
    """x (B, ..., T, C) with other numbers, or zeros, wherever hidden (B, T)."""
    return np.where(hidden.reshape((x.shape[0], *(1,) * (x.ndim - 3), x.shape[-2], 1)), others, x)


def token_inputs(probe: Probe) -> tuple[str, str] | None:
    """The names of (src, tgt_in) if the target is a model of batches of token ids, else None.

    If a model takes a single batch, src and tgt_in are the same.
    """
    names = [name for name, x in probe.inputs.items() if _is_tokens(x)]
    if probe.is_pair or probe.float_inputs or len(names) not in (1, 2) or pad_id_of(probe.target) is None:
        return None
    return names[0], names[-1]


def _is_tokens(x: Any) -> bool:
    return hasattr(x, "dtype") and getattr(x, "ndim", 0) == 2 and str(x.dtype).startswith(("int", "uint"))


def other_tokens(tokens: HostArray) -> HostArray:
    """Each token replaced by another one that occurs, so that it is in the vocabulary."""
    known = np.unique(tokens)
    return np.asarray(known[(np.searchsorted(known, tokens) + 1) % len(known)])


def pad_id_of(target: Any) -> int | None:
    """config.pad_id or pad_id of a model, if it has one."""
    found = getattr(getattr(target, "config", target), "pad_id", None)
    return None if found is None else int(found)
