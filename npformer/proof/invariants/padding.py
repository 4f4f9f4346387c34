"""Padding has no influence on any output that counts, or on any gradient.

Padded positions are filled with finite random numbers of size 1e3, and no bit of anything that counts may
change. A hidden pair has weight 0, and adding 0·1e3 to a sum does not change it, nor does
a gradient of 0 at a padded query.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npformer.proof.invariants.compare import gradients_of, same_bits
from npformer.proof.invariants.invariant import invariant
from npformer.proof.invariants.masks import POISON, governed, pad_id_of, poisoned, token_inputs, without_steps
from npformer.proof.invariants.probe import Probe
from npformer.proof.invariants.result import DoesNotApply, Violation
from npformer.typing import HostArray, HostArrays


@invariant("padding-invariance", "what stands in padded positions changes no bit of any output or gradient that counts")
def padding_invariance(probe: Probe) -> Violation | None:
    """Layers: the masked steps of the inputs are poisoned. Models: the pad row of the embeddings is poisoned."""
    names = token_inputs(probe)
    return _of_layer(probe) if names is None else _of_model(probe, *names)


def _of_layer(probe: Probe) -> Violation | None:
    changed: HostArrays = {}
    queries_hidden: HostArray | None = None
    for one in governed(probe):
        if one.mask.key_visible is None:
            continue
        hidden = np.logical_not(one.mask.key_visible)
        if hidden.any():
            changed |= {name: poisoned(probe.inputs[name], hidden, probe.rng(4)) for name in one.inputs}
            queries_hidden = hidden if one.is_self else queries_hidden
    if not changed:
        raise DoesNotApply("it is given no mask that hides a key of one of its inputs")
    if queries_hidden is not None and queries_hidden.all():
        raise DoesNotApply("every position is padding")
    return _compared(probe, {}, changed, queries_hidden, None)


def _of_model(probe: Probe, src: str, tgt: str) -> Violation | None:
    pad, tables = pad_id_of(probe.target), _embedding_tables(probe)
    if pad is None or not tables:
        raise DoesNotApply("it has no pad_id (or config.pad_id), or no parameter called …embedding… of two axes")
    poison = {name: table.copy() for name, table in tables.items()}
    for table in poison.values():
        table[pad] = POISON * probe.rng(4).normal(size=table.shape[1:])
    tied = getattr(getattr(probe.target, "config", None), "tie_embeddings", False)
    for source in _sources(np.asarray(probe.inputs[src]), pad):
        hidden = (source if src == tgt else np.asarray(probe.inputs[tgt])) == pad
        violation = _compared(probe, {src: source}, poison, hidden, pad if tied else None)
        if violation is not None:
            return violation
    return None


def _sources(tokens: HostArray, pad: int) -> Iterator[HostArray]:
    """The source as given, and with its last sequence emptied: then a query sees nothing but padding."""
    yield tokens
    emptied = tokens.copy()
    emptied[-1] = pad
    yield emptied


def _of_real_tokens(x: HostArray, hidden: HostArray) -> HostArray:
    """Outputs (B, ..., T, C) with zeros where hidden (B, T); of one (B, C) for a sequence, where its first token is."""
    return without_steps(x, hidden) if x.ndim > 2 else np.where(hidden[:, :1], 0.0, x)


def _embedding_tables(probe: Probe) -> HostArrays:
    return {
        name: x for name, x in probe.tensors.items() if name in probe.parameters and "embedding" in name and x.ndim == 2
    }


def _compared(
    probe: Probe, given: dict[str, Any], poison: HostArrays, hidden: HostArray | None, tied_class: int | None
) -> Violation | None:
    """Two runs, with and without poison; padded queries, and the class that shares the pad's row, do not count."""

    def counting(values: HostArrays) -> HostArrays:
        if hidden is not None:
            values = {name: _of_real_tokens(x, hidden) for name, x in values.items()}
        if tied_class is not None:
            values = {name: np.where(np.arange(x.shape[-1]) == tied_class, 0.0, x) for name, x in values.items()}
        return values

    upstream = counting(probe.random_upstream(probe.outputs(given)))
    clean, spoilt = (probe.run(given | more, upstream=upstream) for more in ({}, poison))
    return same_bits(counting(clean.outputs), counting(spoilt.outputs)) or same_bits(
        gradients_of(clean.gradients), gradients_of(spoilt.gradients)
    )
