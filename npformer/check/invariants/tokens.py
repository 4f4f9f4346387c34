"""Tokens that do not count have no effect, and a tied table gets the gradients of all its uses.

Padded positions are filled with finite random numbers of size 1e3, and no bit of anything that counts may
change. A hidden pair has weight 0, and adding 0·1e3 to a sum does not change it, nor does
a gradient of 0 at a padded query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from npformer.backend import PLAIN
from npformer.check.invariants.invariant import (
    POISON,
    Probe,
    governed,
    invariant,
    other_tokens,
    pad_id_of,
    token_inputs,
    with_steps,
)
from npformer.check.properties import DoesNotApply, Equation, Equations
from npformer.typing import HostArray, HostArrays, Values

SMOOTHING = 0.1


@invariant("padding-invariance", "what stands in padded positions changes no bit of any output or gradient that counts")
def padding_invariance(probe: Probe) -> Equations:
    """Layers: the masked steps of the inputs are poisoned. Models: the pad row of the embeddings is poisoned."""
    names = token_inputs(probe)
    return _padding_of_layer(probe) if names is None else _padding_of_model(probe, *names)


def _padding_of_layer(probe: Probe) -> Equations:
    changed: HostArrays = {}
    queries_hidden: HostArray | None = None
    for one in governed(probe):
        if one.mask.key_visible is None:
            continue
        hidden = np.logical_not(one.mask.key_visible)
        if hidden.any():
            for name in one.inputs:
                x = probe.values[name]
                changed[name] = with_steps(x, hidden, POISON * probe.rng(4).normal(size=x.shape))
            queries_hidden = hidden if one.is_self else queries_hidden
    if not changed:
        raise DoesNotApply("it is given no mask that hides a key of one of its inputs")
    if queries_hidden is not None and queries_hidden.all():
        raise DoesNotApply("every position is padding")
    return _compared(probe, {}, changed, queries_hidden, None)


def _padding_of_model(probe: Probe, src: str, tgt: str) -> Equations:
    pad, tables = pad_id_of(probe.target), _embedding_tables(probe)
    if pad is None or not tables:
        raise DoesNotApply("it has no pad_id (or config.pad_id), or no parameter called …embedding… of two axes")
    poison = {name: table.copy() for name, table in tables.items()}
    for table in poison.values():
        table[pad] = POISON * probe.rng(4).normal(size=table.shape[1:])
    tied = getattr(getattr(probe.target, "config", None), "tie_embeddings", False)
    for source in _sources(np.asarray(probe.values[src]), pad):
        hidden = (source if src == tgt else np.asarray(probe.values[tgt])) == pad
        yield from _compared(probe, {src: source}, poison, hidden, pad if tied else None)


def _sources(tokens: HostArray, pad: int) -> Iterator[HostArray]:
    """The source as given, and with its last sequence emptied: then a query sees nothing but padding."""
    yield tokens
    emptied = tokens.copy()
    emptied[-1] = pad
    yield emptied


def _of_real_tokens(x: HostArray, hidden: HostArray) -> HostArray:
    """Outputs (B, ..., T, C) with zeros where hidden (B, T); of one (B, C) for a sequence, where its first token is."""
    return with_steps(x, hidden) if x.ndim > 2 else np.where(hidden[:, :1], 0.0, x)


def _embedding_tables(probe: Probe) -> HostArrays:
    return {
        name: x for name, x in probe.tensors.items() if name in probe.parameters and "embedding" in name and x.ndim == 2
    }


def _compared(
    probe: Probe, inputs: Values, poison: HostArrays, hidden: HostArray | None, tied_class: int | None
) -> Equations:
    """Two runs, with and without poison; padded queries, and the class that shares the pad's row, do not count."""

    def counting(values: HostArrays) -> HostArrays:
        if hidden is not None:
            values = {name: _of_real_tokens(x, hidden) for name, x in values.items()}
        if tied_class is not None:
            values = {name: np.where(np.arange(x.shape[-1]) == tied_class, 0.0, x) for name, x in values.items()}
        return values

    upstream = counting(probe.random_upstream(probe.outputs_at(inputs)))
    clean, spoilt = (probe.run(inputs | more, upstream) for more in ({}, poison))
    yield Equation(counting(clean.outputs), counting(spoilt.outputs), "{}", True)
    yield Equation(clean.gradients, spoilt.gradients, is_exact=True)


@invariant("ignored-tokens", "an ignored target changes neither the loss nor any gradient, nor does one more of them")
def ignored_tokens(probe: Probe) -> Equations:
    """For the loss as a pair (logits, targets, ignore_index, …), and for a model through its loss."""
    loss, still = _loss(probe)
    ignored, targets = loss.values.get("ignore_index", 0), np.array(loss.values["targets"])
    if ignored is None:
        raise DoesNotApply("ignore_index is None: every token counts")
    if not np.any(targets == ignored):
        targets[..., -1] = ignored
    yield from _of_loss(loss, targets, int(ignored))
    names = token_inputs(probe)
    if names is None or not _has_room(probe, names[1]):
        return
    tokens = np.array(probe.values[names[1]])
    longer = [_one_more(x, np.full_like(x, ignored)) for x in (tokens, targets)]
    given, padded = (
        _through_loss(probe, loss, still | {names[1]: inputs}, out) for inputs, out in ((tokens, targets), longer)
    )
    yield Equation(given, padded, "gradient of {}, target padded")


def _of_loss(probe: Probe, targets: HostArray, ignored: int) -> Equations:
    """dlogits is exactly 0 where ignored; the logits there, and more of such tokens, change nothing."""
    hidden = (targets == ignored)[..., None]
    if hidden.all():
        raise DoesNotApply("every target is ignored")
    logits = probe.values["logits"]
    run = probe.run({"targets": targets})
    dlogits = run.gradients["logits"]
    at_ignored = {"logits": np.where(hidden, dlogits, 0.0)}
    noise = POISON * probe.rng(4).normal(size=logits.shape)
    spoilt = probe.run({"targets": targets, "logits": np.where(hidden, noise, logits)})
    more = _one_more(targets, np.full_like(targets, ignored))
    padded = probe.run({"targets": more, "logits": _one_more(logits, noise, axis=-2)})
    yield Equation({"logits": np.zeros_like(dlogits)}, at_ignored, "gradient of {}, ignored tokens", True)
    yield Equation(run.outputs, spoilt.outputs, "{}", True)
    yield Equation(run.gradients, spoilt.gradients, is_exact=True)
    yield Equation(run.outputs, padded.outputs, "{}")
    yield Equation(run.gradients, {"logits": padded.gradients["logits"][..., :-1, :]})


def _one_more(x: Any, source: Any, axis: int = -1) -> Any:
    """x with one more token per sequence, the first of source."""
    return np.concatenate([x, np.take(source, [0], axis=axis)], axis=axis)


@invariant("token-mean", "a loss is the mean over all tokens that count, not the mean of its parts' means")
def token_mean(probe: Probe) -> Equations:
    """A batch of which one part has more padding has Σ (n_i/N)·loss_i, and its rows have the gradients of that."""
    loss = _loss(probe)[0]
    ignored, targets = loss.values.get("ignore_index", 0), np.array(loss.values["targets"])
    if ignored is None or targets.ndim != 2 or min(targets.shape) < 2 or np.all(targets[1:] == ignored):
        raise DoesNotApply("it needs several rows of several targets, some of which may be ignored")
    targets[0, 1:] = ignored
    whole, counted = loss.run({"targets": targets}), targets != ignored
    loss_of_parts, dlogits = np.zeros(()), np.zeros_like(whole.gradients["logits"])
    for rows in (slice(0, 1), slice(1, None)):
        share = counted[rows].sum() / counted.sum()
        upstream = {name: share * dy for name, dy in whole.upstream.items()}
        changed = {"logits": loss.values["logits"][rows], "targets": targets[rows]}
        part = loss.run(changed, upstream)
        loss_of_parts = loss_of_parts + share * part.outputs["output"]
        dlogits[rows] = part.gradients["logits"]
    yield Equation({"output": loss_of_parts}, whole.outputs, "{}")
    yield Equation({"logits": dlogits}, whole.gradients)


def _loss(probe: Probe) -> tuple[Probe, Values]:
    """The loss, of a model that at its logits; and what to change for its forward without dropout."""
    names = token_inputs(probe)
    if names is None:
        if not {"logits", "targets"} <= probe.values.keys():
            raise DoesNotApply("it is neither a loss of (logits, targets) nor a model of (src, tgt_in)")
        return probe, {}
    pad = pad_id_of(probe.target)
    if pad is None:
        raise DoesNotApply("it has no pad_id (or config.pad_id)")
    tokens = np.array(probe.values[names[1]])
    targets = np.where(tokens == pad, pad, other_tokens(tokens))
    targets[-1, -1] = pad
    if np.all(targets == pad):
        raise DoesNotApply("every target is padding")
    pair = getattr(probe.target, "ops", PLAIN).cross_entropy
    still = probe.without_dropout()
    logits = probe.outputs_at(still)["output"]
    if logits.ndim < 3:
        raise DoesNotApply("it has one target for each sequence, and none is ignored")
    targets = targets % logits.shape[-1]  # classes may be fewer than tokens
    loss = Probe(tuple(pair), (logits, targets, pad, SMOOTHING), {}, probe.device)
    loss.seed = probe.seed
    return loss, still


def _has_room(probe: Probe, tgt: str) -> bool:
    """Whether a longer target fits: learned positions end at max_seq_len."""
    length = int(probe.values[tgt].shape[1])
    return int(getattr(getattr(probe.target, "config", None), "max_seq_len", length + 1)) > length


def _through_loss(probe: Probe, loss: Probe, changed: Values, targets: HostArray) -> HostArrays:
    """Every parameter's gradient of the mean loss."""
    logits = probe.outputs_at(changed)["output"]
    one: HostArrays = {"output": np.asarray(1.0)}
    dlogits = loss.run({"logits": logits, "targets": targets}, one).gradients["logits"]
    return probe.run(changed, {"output": dlogits}).gradients


@invariant("tying", "a tied parameter receives the sum of the gradients of all its uses")
def tying(probe: Probe) -> Equations:
    """Compared with an untied copy with equal numbers: source table + target table + output projection, transposed."""
    config = getattr(probe.target, "config", None)
    if not getattr(config, "tie_embeddings", False):
        raise DoesNotApply("it has no config.tie_embeddings, or it is False")
    run, values = probe.run(), probe.tensors
    other = probe.of(_untied_twin(probe.target))
    tables, output = _uses(other)
    table = values[tables[0]]
    alone = other.run(values | dict.fromkeys(tables, table) | {output: table.T}, run.upstream)
    expected = {name: alone.gradients[name] for name in run.gradients}
    expected[tables[0]] = sum((alone.gradients[name] for name in tables), start=alone.gradients[output].T)
    yield Equation(alone.outputs, run.outputs, "{}")
    yield Equation(expected, run.gradients, upstream=[*run.upstream.values()])


def _untied_twin(model: Any) -> Any:
    """A model of the same class and backend that does not tie. Raises DoesNotApply if it cannot be built so."""
    try:
        return type(model)(replace(model.config, tie_embeddings=False), backend=model.backend)
    except TypeError as error:
        raise DoesNotApply(
            f"an untied twin is built by type(model)(config, backend=…), which raised: {error}"
        ) from error


def _uses(untied: Probe) -> tuple[list[str], str]:
    """The parameters that a tied model shares: tables of embeddings, and the matrix of the output."""
    tables = [name for name in untied.parameters if name.endswith("embedding.weight")]
    outputs = untied.parameters.keys() & {"generator.weight", "head.weight"}
    if not tables or not outputs:
        raise DoesNotApply("an untied twin lacks …embedding.weight, or both generator.weight and head.weight")
    return tables, outputs.pop()
