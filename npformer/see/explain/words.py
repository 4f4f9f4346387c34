"""A number in words: which feature, head, token or position it belongs to, and what its arrays are called.

Why a product is exactly 0: padding, a mask, a closed gate, dropout, another token. Each reason is looked up.

A gradient may be 0 for reasons that lie nearer to the loss; then the product says only that, and ``--up`` goes there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.functional import AttentionMask
from npformer.io.printable import visible
from npformer.layers import BatchNorm, Embedding, FeedForward, LayerNorm, LearnedPositions, Linear, MultiHeadAttention
from npformer.layers.relative_bias import RelativeBias
from npformer.see.explain.entries import Index, Spot
from npformer.see.explain.number import GradientAddress
from npformer.see.explain.products import Factor, Term
from npformer.see.record.calls import Call, layers_in, shown_name
from npformer.see.record.recording import LOSS, Recording
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


def what(session: Recording, place: GradientAddress) -> str:
    """The place in words."""
    if place.kind == "parameter":
        return _parameter(session, place)
    owner = place.name.partition("@")[0] or type(session.target).__name__
    entry = entry_words(session, place.array(session), place.index, owner)
    if place.kind == "output":
        return f"{entry} of what {owner} returns"
    if place.kind == "input":
        return f"{entry} of the input {place.name}"
    return f"{entry} of {place.name.partition('@')[2]}, which goes into {owner}; only its use there counts"


def entry_words(session: Recording, x: Any, index: Index, owner: str) -> str:
    """An entry of an activation: feature 3 of token b0 t2 ("o")."""
    shape = np.shape(x)
    if len(shape) == 3 and shape[:2] in token_shapes(session):
        return f"feature {index[2]} of {token(session, index[0], index[1], shape[1], owner)}"
    if len(shape) == 4:
        return f"entry {index[3]} of row {index[2]}, head {index[1]}, sequence {index[0]},"
    return f"entry [{','.join(map(str, index))}]"


def token_shapes(session: Recording) -> list[Index]:
    """(B, T) of each sequence that went in."""
    return [np.shape(x)[:2] for x in session.setting.inputs if getattr(x, "ndim", 0) >= 2]


def token(session: Recording, row: int, position: int, length: int, owner: str) -> str:
    """A token by its place, and by its text where it is known."""
    text = label(session, row, position, length, owner)
    return f"token b{row} t{position}" + (f" ({text})" if text else "")


def label(session: Recording, row: int, position: int, length: int, owner: str) -> str:
    """The text of a token of the sequence that a part of the model, owner, works on; "" if that is not known."""
    labels = session.setting.labels
    is_target = owner.startswith(("decoder", "tgt", "generator")) and "target_in" in labels
    rows = labels.get("target_in" if is_target else "source", [])
    return quoted(rows[row][position]) if row < len(rows) and len(rows[row]) == length else ""


def quoted(piece: str) -> str:
    """A piece of text as it is shown; special ones without quotation marks."""
    is_special = len(piece) > 2 and (piece[0], piece[-1]) == ("[", "]")
    return visible(piece) if is_special or piece.startswith("class ") else f'"{visible(piece)}"'


def _owner(session: Recording, name: str) -> tuple[Any, str]:
    """(the layer that has a parameter, the parameter's own name)."""
    layers = dict(layers_in(session.target))
    owner, inside = name, ""
    while owner not in layers:  # the target itself is called ""
        owner, _, word = owner.rpartition(".")
        inside = f"{word}.{inside}" if inside else word
    return layers[owner], inside


def _parameter(session: Recording, place: GradientAddress) -> str:
    owner, name = _owner(session, place.name)
    parts = place.name.split(".")
    around = _owner(session, ".".join(parts[:-2]) + ".x")[0] if len(parts) > 2 else None
    text = _said(session, owner, name, around, parts[-2] if len(parts) > 1 else "", place.index)
    aliases = [a for first, _, others in session.target.owned_parameters() if first == place.name for a in others]
    return text + (f"; tied: also {', '.join(aliases)}" if aliases else "")


def _said(session: Recording, owner: Any, name: str, around: Any, member: str, index: Index) -> str:
    """In words, for a parameter called name of the layer owner, which is the member of the layer around it."""
    last = index[-1] if index else 0
    if isinstance(owner, MultiHeadAttention) and "." in name:
        part, kind = name.split(".")
        place = _head(owner, last)
        inputs_of_calls = (call.inputs[1:2] for call in session.calls if call.target is owner)
        has_memory = any(memory is not None for inputs in inputs_of_calls for memory in inputs)
        memory = "the memory's" if part != "query" and has_memory else "the layer's input's"
        every = f"{place} of every {part}"
        return f"{memory} feature {index[0]} → {every}" if kind == "weight" else f"added to {every}"
    if isinstance(owner, Linear):
        return _linear(session, owner, name, around, member, index)
    if isinstance(owner, LayerNorm | BatchNorm):
        return (
            f"the gain of feature {last} of every token"
            if name == "gamma"
            else f"added to feature {last} of every token"
        )
    if isinstance(owner, Embedding):
        pieces = session.setting.pieces
        piece = f" ({quoted(pieces[index[0]])})" if index[0] < len(pieces) else ""  # where the vocabulary is known
        return f"feature {last} of the vector of token {index[0]}{piece}"
    if isinstance(owner, LearnedPositions):
        return f"feature {last} of the vector of position {index[0]}"
    if isinstance(owner, RelativeBias):
        return f"added to head {last}'s scores of pairs at distances of bucket {index[0]}"
    return f"entry [{','.join(map(str, index))}] of {name} in a {type(owner).__name__}"


def _linear(session: Recording, owner: Linear, name: str, around: Any, member: str, index: Index) -> str:
    goes, comes = f"feature {index[-1]} of its output", f"feature {index[0]} of its input"
    if isinstance(around, MultiHeadAttention):
        comes, goes = _head(around, index[0]), f"feature {index[-1]} of the attention's output"
    elif isinstance(around, FeedForward) and member == "up":
        comes, goes = f"feature {index[0]} of the layer's input", f"hidden unit {index[-1]}"
    elif isinstance(around, FeedForward):
        comes, goes = f"hidden unit {index[0]}", f"feature {index[-1]} of the layer's output"
    elif any(owner is getattr(session.target, output, None) for output in ("generator", "head")):
        classes = session.setting.classes or session.setting.pieces
        has_each = len(classes) == owner.bias.data.shape[0]  # a class, or a piece of the vocabulary, for each logit
        told = f" ({quoted(classes[index[-1]])})" if has_each else ""
        comes, goes = f"feature {index[0]} of each token", f"the logit of class {index[-1]}{told}"
    return f"{comes} → {goes}" if name == "weight" else f"added to {goes} at every token"


def _head(attention: MultiHeadAttention, column: int) -> str:
    width = attention.output.bias.data.shape[0] // attention.num_heads
    return f"head {column // width}, dimension {column % width}"


def shown(session: Recording, call: Call, spot: Spot | None, text: str) -> str:
    """A name of the code as a reader of the layer calls it: dy of the projection in attention is dQ, dK and dV."""
    if spot is None or spot.caller is not None:
        return text
    attention = call.parent.target if call.parent is not None else None
    first = next(iter(spot.frame.arguments))
    if call.operation == "linear" and isinstance(attention, MultiHeadAttention) and spot.name == first and spot.index:
        width = int(attention.output.bias.data.shape[0])
        columns = int(np.shape(session.seen[call.number].output)[-1]) // width
        names = {1: ["Q"], 2: ["K", "V"], 3: ["Q", "K", "V"]}.get(columns, [])
        if names:
            index = (*spot.index[:-1], spot.index[-1] % width)
            return f"d{names[spot.index[-1] // width]}[{','.join(map(str, index))}]"
    if call.operation == LOSS and spot.name == first:
        return "dloss"
    return text


def axis_words(session: Recording, call: Call, shape: Index, index: Index) -> str:
    """b0 t2 for an entry of an array over tokens, b0 h1 t2→t3 for one of a query and a key; else nothing."""
    if "attention" in call.operation and len(shape) == 4:
        q, k = (np.shape(part) for part in session.seen[call.number].inputs[:2])
        pair = f"→t{index[3]}" if shape == (*q[:3], k[2]) and shape[3] != q[3] else ""
        return f"b{index[0]} h{index[1]} t{index[2]}{pair}"
    if len(shape) >= 2 and tuple(shape[:2]) in token_shapes(session):
        return f"b{index[0]} t{index[1]}"
    return ""


def why_zero(session: Recording, call: Call, term: Term) -> str:
    """The reason, in a few words."""
    zeros = [factor for factor in term.factors if factor.value == 0]
    for factor in zeros:
        reason = _of_factor(session, call, factor)
        if reason:
            return reason
    gradient = term.gradient
    if gradient is None and len(term.factors) == 1:  # an array of zeros, to which a loop adds
        return BEGINS
    if gradient is None or gradient.value != 0:
        return FACTOR
    if _is_of_padding(session, call, gradient):
        return PADDED
    return ALONE if _sees_one_key(session, call, gradient) else GRADIENT


def _of_factor(session: Recording, call: Call, factor: Factor) -> str:
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


def _visible(session: Recording, call: Call) -> HostArray | None:
    """Which pairs of queries and keys may meet (B, H, T, S) in an attention; None if all may, or without attention."""
    mask = next((x for x in call.inputs if isinstance(x, AttentionMask)), None)
    if mask is None or call.operation not in ("attention", "biased_attention"):
        return None
    q, k = session.seen[call.number].inputs[:2]
    visible = mask.visible(q.shape[2], k.shape[2], q)
    return None if visible is None else np.broadcast_to(visible, (*q.shape[:3], k.shape[2]))


def _sees_one_key(session: Recording, call: Call, gradient: Factor) -> bool:
    """Whether a gradient of scores or of a query is of one that sees a single key, as the first of a causal mask."""
    inside = "attention" in call.operation
    if not (_name(gradient) == "dscores" if inside else call.operation == "linear" and len(gradient.at) == 3):
        return False
    attends = [call] if inside else [each for each in session.calls if each.parent is call.parent is not None]
    row, seen = gradient.at[2 if inside else 1], session.seen[call.number]
    width, x_width = (
        np.shape(seen.output)[-1],
        np.shape(seen.inputs[0])[-1],
    )  # Q, K and V stand side by side, or Q alone
    is_query = inside or gradient.at[2] < width // 3 or width // x_width == 1
    for each in attends:
        visible = _visible(session, each)
        if visible is not None and is_query and row < visible.shape[2]:
            return bool(visible[gradient.at[0], 0, row].sum() == 1)
    return False


def _is_of_padding(session: Recording, call: Call, gradient: Factor) -> bool:
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
