"""Why a product is exactly 0: padding, a mask, a closed gate, dropout, another token. Each reason is looked up.

A gradient may be 0 for reasons that lie nearer to the loss; then the product says only that, and ``--up`` goes there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.explain.expand import Factor, Term
from npformer.explain.session import Session
from npformer.functional import AttentionMask
from npformer.proof.listening import Call, shown_name
from npformer.typing import HostArray

PADDED = "padding: its own loss does not count, and no visible token looks at it"
OTHER = "another token stands there"
FAR = "a pair at another distance"
CLOSED = "a closed gate of ReLU"
DROPPED = "dropped"
HIDDEN = "hidden by the mask"
ALONE = "its query sees a single key, whose weight is 1 whatever the scores are"
GRADIENT = "its gradient is 0"
FACTOR = "a factor is 0"
BEGINS = "where the sum begins"

#: The names of arrays with a number for each pair of a query and a key, in attention's code.
_SCORES = ("dscores", "dweights", "dropped", "weights", "softmax.y", "y")


def why_zero(session: Session, call: Call, term: Term) -> str:
    """The reason, in a few words."""
    zeros = [factor for factor in term.factors if factor.value == 0]
    for factor in zeros:
        found = _of_factor(session, call, factor)
        if found:
            return found
    gradient = term.gradient
    if gradient is None and len(term.factors) == 1:  # an array of zeros, to which a loop adds
        return BEGINS
    if gradient is None or gradient.value != 0:
        return FACTOR
    if _is_of_padding(session, call, gradient):
        return PADDED
    return ALONE if _sees_one_key(session, call, gradient) else GRADIENT


def _of_factor(session: Session, call: Call, factor: Factor) -> str:
    """The reason why a factor itself is 0; "" if it is not known."""
    if factor.spot is None and call.operation in ("embedding", "relative_bias"):
        return OTHER if call.operation == "embedding" else FAR
    visible = _visible(session, call)
    if visible is not None and len(factor.at) == 4 and _name(factor) in _SCORES and not visible[factor.at]:
        return HIDDEN
    active, dropout = (getattr(call.cache, name, None) for name in ("active", "dropout"))
    dropout = dropout or getattr(getattr(call.cache, "residual", None), "dropout", None)
    if _is_shut(getattr(active, "is_open", None), factor):
        return CLOSED
    return DROPPED if _is_shut(getattr(dropout, "keep", None), factor) else ""


def _name(factor: Factor) -> str:
    return factor.text.partition("[")[0]


def _is_shut(passes: Any, factor: Factor) -> bool:
    """Whether a gate or a dropout mask, an array of the same places as the factor's, is False at its place."""
    return isinstance(passes, np.ndarray) and factor.shape == passes.shape and not passes[factor.at]


def _visible(session: Session, call: Call) -> HostArray | None:
    """Which pairs of queries and keys may meet (B, H, T, S) in an attention; None if all may, or if it is none."""
    mask = next((x for x in call.inputs if isinstance(x, AttentionMask)), None)
    if mask is None or call.operation not in ("attention", "biased_attention"):
        return None
    q, k = session.call_seen(call).inputs[:2]
    found = mask.visible(q.shape[2], k.shape[2], q)
    return None if found is None else np.broadcast_to(found, (*q.shape[:3], k.shape[2]))


def _sees_one_key(session: Session, call: Call, gradient: Factor) -> bool:
    """Whether a gradient of scores or of a query is of one that sees a single key, as the first of a causal mask."""
    inside = "attention" in call.operation
    if not (_name(gradient) == "dscores" if inside else call.operation == "linear" and len(gradient.at) == 3):
        return False
    attends = [call] if inside else [each for each in session.calls if each.parent is call.parent is not None]
    row, seen = gradient.at[2 if inside else 1], session.call_seen(call)
    width, own = np.shape(seen.output)[-1], np.shape(seen.inputs[0])[-1]  # Q, K and V stand side by side, or Q alone
    is_query = inside or gradient.at[2] < width // 3 or width // own == 1
    for each in attends:
        visible = _visible(session, each)
        if visible is not None and is_query and row < visible.shape[2]:
            return bool(visible[gradient.at[0], 0, row].sum() == 1)
    return False


def _is_of_padding(session: Session, call: Call, gradient: Factor) -> bool:
    """Whether a gradient belongs to a token of padding; in attention, to its query."""
    step = 2 if "attention" in call.operation and len(gradient.shape) == 4 else 1  # (B, T) of (B, H, T, D)
    shape, at = gradient.shape[::step][:2], gradient.at[::step][:2]
    ids = [x for x in session.setting.inputs if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.ndim == 2]
    if len(ids) == 2:
        ids = [ids[1] if _is_of_targets(call) else ids[0]]
    if ids:
        return bool(shape == ids[0].shape and ids[0][at] == session.setting.pad_id)
    mask = session.setting.options.get("mask")
    visible = mask.key_visible if isinstance(mask, AttentionMask) else None
    return visible is not None and shape == visible.shape and not visible[at]


def _is_of_targets(call: Call) -> bool:
    """Whether a call of an encoder-decoder works on the targets: the projection of the memory does not."""
    around = call.parent
    if not shown_name(call).startswith(("decoder", "tgt", "generator", "loss")):
        return False
    reads_memory = around is not None and len(around.inputs) > 1 and call.inputs[0] is around.inputs[1]
    return not reads_memory
