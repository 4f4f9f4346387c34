"""Why a product is exactly 0: padding, a mask, a closed gate, dropout, or another token."""

from __future__ import annotations

import numpy as np

from npformer.explain.expand import Term
from npformer.explain.session import Session
from npformer.functional import ALL_VISIBLE, AttentionMask
from npformer.proof.listening import Call

PADDED = "padding: its own loss does not count, and no visible token looks at it"
OTHER = "another token stands there"
CLOSED = "a closed gate of ReLU, or dropped"
HIDDEN = "hidden by the mask"
ALONE = "its query sees a single key, whose weight is 1 whatever the scores are"


def why_zero(session: Session, call: Call, term: Term, up: str) -> str:
    """The reason, in a few words; up: the name of the gradient in the product."""
    gradient = term.gradient
    if call.operation == "embedding" and any(f.value == 0 for f in term.factors if f.spot is None):
        return OTHER
    if gradient is None or gradient.value != 0:
        return HIDDEN if "attention" in call.operation and _has_mask(call) else CLOSED
    shape = np.shape(gradient.spot.array()) if gradient.spot is not None else ()
    if is_padding(session, shape, gradient.at):
        return PADDED
    if "attention" in call.operation and _has_mask(call):
        return HIDDEN
    if up.startswith(("dQ", "dK")):
        return _of_query(session, call, gradient.at) or f"its gradient is 0: --up '{up}' shows why"
    if call.operation in ("feed_forward", "relu", "dropout"):
        return CLOSED
    return f"its gradient is 0: --up '{up}' shows why"


def _of_query(session: Session, call: Call, index: tuple[int, ...]) -> str:
    """The reason for a zero in dQ: a causal mask lets the first query see itself alone."""
    attends = (each for each in session.calls if each.parent is call.parent and "attention" in each.operation)
    masks = [x for each in attends for x in each.inputs if isinstance(x, AttentionMask)]
    return ALONE if masks and masks[0].causal and masks[0].query_offset == 0 and index[1:2] == (0,) else ""


def is_padding(session: Session, shape: tuple[int, ...], index: tuple[int, ...]) -> bool:
    """Whether an entry of an array over tokens belongs to padding."""
    pad = getattr(getattr(session.setting.target, "config", None), "pad_id", 0)
    for x in session.setting.inputs:
        if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.ndim == 2 and shape[:2] == x.shape:
            return bool(x[index[:2]] == pad)
    mask = session.setting.options.get("mask")
    visible = mask.key_visible if isinstance(mask, AttentionMask) else None
    return visible is not None and shape[:2] == visible.shape and not visible[index[:2]]


def _has_mask(call: Call) -> bool:
    mask = next((x for x in call.inputs if isinstance(x, AttentionMask)), None)
    return mask is not None and mask is not ALL_VISIBLE
