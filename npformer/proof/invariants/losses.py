"""Two promises of whole models: ignored tokens have no effect, and a tied table gets the gradients of all its uses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npformer.backend import PLAIN
from npformer.proof.invariants.compare import gradients_of, same_bits, same_to_rounding
from npformer.proof.invariants.invariant import invariant
from npformer.proof.invariants.masks import POISON, other_tokens, pad_id_of, token_inputs
from npformer.proof.invariants.probe import Probe
from npformer.proof.invariants.result import DoesNotApply, Violation
from npformer.proof.invariants.snapshot import restored
from npformer.typing import HostArray, HostArrays

SMOOTHING = 0.1
TABLES = ("src_embedding.weight", "tgt_embedding.weight")
USES = (*TABLES, "generator.weight")  # the uses of a tied table, the output projection last
USES_OF_ONE = (("embedding.weight", "generator.weight"), ("embedding.weight", "head.weight"))


@invariant("ignored-tokens", "an ignored target changes neither the loss nor any gradient, nor does one more of them")
def ignored_tokens(probe: Probe) -> Violation | None:
    """For the loss as a pair (logits, targets, ignore_index, …), and for a model through its loss."""
    names = token_inputs(probe)
    if names is not None:
        return _of_model(probe, *names)
    if not {"logits", "targets"} <= probe.inputs.keys():
        raise DoesNotApply("it is neither a loss of (logits, targets) nor a model of (src, tgt_in)")
    ignored = probe.inputs.get("ignore_index", 0)
    if ignored is None:
        raise DoesNotApply("ignore_index is None: every token counts")
    targets = np.array(probe.inputs["targets"])
    if not np.any(targets == ignored):
        targets[..., -1] = ignored
    return _of_loss(probe, targets, int(ignored))


def _of_loss(probe: Probe, targets: HostArray, ignored: int) -> Violation | None:
    """dlogits is exactly 0 where ignored; the logits there, and more of such tokens, change nothing."""
    hidden = (targets == ignored)[..., None]
    if hidden.all():
        raise DoesNotApply("every target is ignored")
    logits = probe.inputs["logits"]
    run = probe.run({"targets": targets})
    dlogits = {"gradient of logits": run.gradients["logits"]}
    at_ignored = {"gradient of logits, ignored tokens": np.where(hidden, run.gradients["logits"], 0.0)}
    noise = POISON * probe.rng(4).normal(size=logits.shape)
    spoilt = probe.run({"targets": targets, "logits": np.where(hidden, noise, logits)})
    more = _one_more(targets, np.full_like(targets, ignored))
    padded = probe.run({"targets": more, "logits": _one_more(logits, noise, axis=-2)})
    rest = padded.gradients["logits"][..., :-1, :]
    return (
        same_bits({name: np.zeros_like(x) for name, x in at_ignored.items()}, at_ignored)
        or same_bits(run.outputs, spoilt.outputs)
        or same_bits(dlogits, {"gradient of logits": spoilt.gradients["logits"]})
        or same_to_rounding(run.outputs, padded.outputs)
        or same_to_rounding(dlogits, {"gradient of logits": rest})
    )


def _one_more(x: Any, source: Any, axis: int = -1) -> Any:
    """x with one more token per sequence, the first of source."""
    return np.concatenate([x, np.take(source, [0], axis=axis)], axis=axis)


def _of_model(probe: Probe, src: str, tgt: str) -> Violation | None:
    pad = pad_id_of(probe.target)
    if pad is None:
        raise DoesNotApply("it has no pad_id (or config.pad_id)")
    tokens = np.array(probe.inputs[tgt])
    targets = np.where(tokens == pad, pad, other_tokens(tokens))
    targets[-1, -1] = pad
    if np.all(targets == pad):
        raise DoesNotApply("every target is padding")
    pair = getattr(probe.target, "ops", PLAIN).cross_entropy
    changed, options = probe.without_dropout()
    logits = probe.outputs(changed, options)["output"]
    if logits.ndim < 3:
        raise DoesNotApply("it has one target for each sequence, and none is ignored")
    targets = targets % logits.shape[-1]  # classes may be fewer than tokens
    loss = Probe(tuple(pair), (logits, targets, pad, SMOOTHING), {}, probe.device, probe.seed)
    violation = _of_loss(loss, targets, pad)
    if violation is not None or not _has_room(probe.target, tokens):
        return violation
    padding = np.full_like(tokens, pad)
    pairs = ((tokens, targets), (_one_more(tokens, padding), _one_more(targets, padding)))
    gradients = [_through_loss(probe, loss, changed | {tgt: inputs}, options, out) for inputs, out in pairs]
    return same_to_rounding(*gradients)


def _has_room(target: Any, tokens: HostArray) -> bool:
    """Whether a longer target fits: learned positions end at max_seq_len."""
    length = int(tokens.shape[1])
    return int(getattr(getattr(target, "config", None), "max_seq_len", length + 1)) > length


def _through_loss(
    probe: Probe, loss: Probe, changed: dict[str, Any], options: dict[str, Any], targets: HostArray
) -> HostArrays:
    """Every parameter's gradient of the mean loss."""
    logits = probe.outputs(changed, options)["output"]
    one: HostArrays = {"output": np.asarray(1.0)}
    dlogits = loss.run({"logits": logits, "targets": targets}, upstream=one).gradients["logits"]
    found = probe.run(changed, options=options, upstream={"output": dlogits}).gradients
    return gradients_of(found, ", target padded")


@invariant("tying", "a tied parameter receives the sum of the gradients of all its uses")
def tying(probe: Probe) -> Violation | None:
    """Compared with an untied copy with equal numbers: source table + target table + output projection, transposed."""
    config = getattr(probe.target, "config", None)
    if not getattr(config, "tie_embeddings", False):
        raise DoesNotApply("it has no config.tie_embeddings, or it is False")
    run, values = probe.run(), probe.tensors
    twin = _untied_twin(probe.target)
    with restored(twin):
        other = Probe(twin, tuple(probe.inputs.values()), probe.options, probe.device, probe.seed)
        *tables, output = _uses(twin)
        table = values[tables[0]]
        uses = dict.fromkeys(tables, table) | {output: table.T}
        alone = other.run(values | uses, upstream=run.upstream)
    expected = {name: alone.gradients[name] for name in run.gradients}
    expected[tables[0]] = sum((alone.gradients[name] for name in tables), start=alone.gradients[output].T)
    return same_to_rounding(alone.outputs, run.outputs) or same_to_rounding(
        gradients_of(expected), gradients_of(run.gradients), run.upstream
    )


def _untied_twin(model: Any) -> Any:
    """A model of the same class and backend that does not tie. Raises DoesNotApply if it cannot be built so."""
    try:
        twin = type(model)(replace(model.config, tie_embeddings=False), backend=model.backend)
    except TypeError as error:
        raise DoesNotApply(
            f"an untied twin is built by type(model)(config, backend=…), which raised: {error}"
        ) from error
    _uses(twin)
    return twin


def _uses(twin: Any) -> tuple[str, ...]:
    """The names, in an untied copy, of the parameters that a tied model shares. Raises DoesNotApply without any."""
    names = dict(twin.named_parameters())
    for uses in (USES, *USES_OF_ONE):
        if all(name in names for name in uses):
            return uses
    missing = [name for name in USES if name not in names]
    raise DoesNotApply(f"an untied twin has parameters {', '.join(USES)}; it lacks {', '.join(missing)}")
