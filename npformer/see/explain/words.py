"""A number in words: which feature, head, token or position it belongs to, and what its arrays are called.

And why a product is exactly 0: padding, a mask, a closed gate, dropout, another token. Each reason is looked up. A
gradient may be 0 for reasons that lie nearer to the loss; then the product says only that, and ``--up`` goes there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.functional import AttentionMask
from npformer.io.printable import visible
from npformer.layers import BatchNorm, Embedding, FeedForward, LayerNorm, LearnedPositions, Linear, MultiHeadAttention
from npformer.layers.positions import RelativeBias
from npformer.see.explain.entries import Index, Spot
from npformer.see.explain.number import GradientAddress
from npformer.see.explain.products import Factor, Term
from npformer.see.record.calls import Call, layers_in
from npformer.see.record.recording import LOSS, Recording
from npformer.see.record.trace import aliases_of
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
        others = aliases_of(session.target).get(place.name, ())
        return _parameter(session, place) + (f"; tied: also {', '.join(others)}" if others else "")
    owner = place.name.partition("@")[0] or type(session.target).__name__
    entry = _entry(session, np.shape(place.array(session)), place.index, owner)
    if place.kind == "output":
        return f"{entry} of what {owner} returns"
    if place.kind == "input":
        return f"{entry} of the input {place.name}"
    return f"{entry} of {place.name.partition('@')[2]}, which goes into {owner}; only its use there counts"


def _entry(session: Recording, shape: Index, index: Index, owner: str) -> str:
    """An entry of an activation, such as feature 3 of token b0 t2 ("o"), of a part of the model, owner."""
    if len(shape) == 4:
        return f"entry {index[3]} of row {index[2]}, head {index[1]}, sequence {index[0]},"
    if len(shape) != 3 or shape[:2] not in _token_shapes(session):
        return f"entry [{','.join(map(str, index))}]"
    row, position, feature = index
    labels = session.setting.labels
    is_target = owner.startswith(("decoder", "tgt", "generator")) and "target_in" in labels
    rows = labels.get("target_in" if is_target else "source", [])
    text = f" ({quoted(rows[row][position])})" if row < len(rows) and len(rows[row]) == shape[1] else ""
    return f"feature {feature} of token b{row} t{position}{text}"


def _token_shapes(session: Recording) -> list[Index]:
    """(B, T) of each sequence that went in."""
    return [np.shape(x)[:2] for x in session.setting.inputs if getattr(x, "ndim", 0) >= 2]


def quoted(piece: str) -> str:
    """A piece of text as it is shown; special ones without quotation marks."""
    is_special = len(piece) > 2 and (piece[0], piece[-1]) == ("[", "]")
    return visible(piece) if is_special or piece.startswith("class ") else f'"{visible(piece)}"'


def _parameter(session: Recording, place: GradientAddress) -> str:
    layers = dict(layers_in(session.target))
    path = place.name.split(".")
    depth = next(i for i in range(len(path) - 1, -1, -1) if ".".join(path[:i]) in layers)  # the target itself is ""
    owner, name, index = layers[".".join(path[:depth])], ".".join(path[depth:]), place.index
    last = index[-1] if index else 0
    if isinstance(owner, MultiHeadAttention) and "." in name:
        part, kind = name.split(".")
        inputs_of_calls = (call.inputs[1:2] for call in session.calls if call.target is owner)
        has_memory = any(memory is not None for inputs in inputs_of_calls for memory in inputs)
        memory = "the memory's" if part != "query" and has_memory else "the layer's input's"
        every = f"{_head(owner, last)} of every {part}"
        return f"{memory} feature {index[0]} → {every}" if kind == "weight" else f"added to {every}"
    if isinstance(owner, Linear):
        around = layers.get(".".join(path[: depth - 1])) if depth else None
        comes, goes = _linear(session, owner, around, path[depth - 1], index)
        return f"{comes} → {goes}" if name == "weight" else f"added to {goes} at every token"
    if isinstance(owner, LayerNorm | BatchNorm):
        return f"{'the gain of' if name == 'gamma' else 'added to'} feature {last} of every token"
    if isinstance(owner, Embedding):
        pieces = session.setting.pieces
        piece = f" ({quoted(pieces[index[0]])})" if index[0] < len(pieces) else ""  # where the vocabulary is known
        return f"feature {last} of the vector of token {index[0]}{piece}"
    if isinstance(owner, LearnedPositions):
        return f"feature {last} of the vector of position {index[0]}"
    if isinstance(owner, RelativeBias):
        return f"added to head {last}'s scores of pairs at distances of bucket {index[0]}"
    return f"entry [{','.join(map(str, index))}] of {name} in a {type(owner).__name__}"


def _linear(session: Recording, owner: Linear, around: Any, member: str, index: Index) -> tuple[str, str]:
    """What a weight reads and what it makes, for a map that is the member of the layer around it."""
    first, last, target = index[0], index[-1], session.target
    if isinstance(around, MultiHeadAttention):
        return _head(around, first), f"feature {last} of the attention's output"
    if isinstance(around, FeedForward) and member == "up":
        return f"feature {first} of the layer's input", f"hidden unit {last}"
    if isinstance(around, FeedForward):
        return f"hidden unit {first}", f"feature {last} of the layer's output"
    if any(owner is getattr(target, output, None) for output in ("generator", "head")):
        classes = session.setting.classes or session.setting.pieces
        has_each = len(classes) == owner.bias.data.shape[0]  # a class, or a piece of the vocabulary, for each logit
        told = f" ({quoted(classes[last])})" if has_each else ""
        return f"feature {first} of each token", f"the logit of class {last}{told}"
    return f"feature {first} of its input", f"feature {last} of its output"


def _head(attention: MultiHeadAttention, column: int) -> str:
    width = attention.output.bias.data.shape[0] // attention.num_heads
    return f"head {column // width}, dimension {column % width}"


def shown(session: Recording, call: Call, spot: Spot | None, text: str) -> str:
    """A name of the code as a reader of the layer calls it: dy of the projection in attention is dQ, dK and dV."""
    if spot is None or spot.caller is not None or spot.name != next(iter(spot.frame.arguments)):
        return text
    attention = call.parent.target if call.parent is not None else None
    if call.operation == "linear" and isinstance(attention, MultiHeadAttention) and spot.index:
        width = int(attention.output.bias.data.shape[0])
        columns = int(np.shape(session.seen[call.number].output)[-1]) // width
        names = {1: ["Q"], 2: ["K", "V"], 3: ["Q", "K", "V"]}.get(columns, [])
        if names:
            index = (*spot.index[:-1], spot.index[-1] % width)
            return f"d{names[spot.index[-1] // width]}[{','.join(map(str, index))}]"
    return "dloss" if call.operation == LOSS else text


def axis_words(session: Recording, call: Call, shape: Index, index: Index) -> str:
    """b0 t2 for an entry of an array over tokens, b0 h1 t2→t3 for one of a query and a key; else nothing."""
    if "attention" in call.operation and len(shape) == 4:
        q, k = (np.shape(part) for part in session.seen[call.number].inputs[:2])
        pair = f"→t{index[3]}" if shape == (*q[:3], k[2]) and shape[3] != q[3] else ""
        return f"b{index[0]} h{index[1]} t{index[2]}{pair}"
    if len(shape) >= 2 and tuple(shape[:2]) in _token_shapes(session):
        return f"b{index[0]} t{index[1]}"
    return ""


def why_zero(session: Recording, call: Call, term: Term) -> str:
    """The reason, in a few words."""
    for factor in term.factors:
        reason = _of_factor(session, call, factor) if factor.value == 0 else ""
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
    visible, cache = _visible(session, call), call.cache
    if visible is not None and len(factor.at) == 4 and _name(factor) in _SCORES and not visible[factor.at]:
        return HIDDEN
    dropout = getattr(cache, "dropout", None) or getattr(getattr(cache, "residual", None), "dropout", None)
    gate = getattr(getattr(cache, "active", None), "is_open", None)
    for reason, passes in ((CLOSED, gate), (DROPPED, getattr(dropout, "keep", None))):
        if isinstance(passes, np.ndarray) and factor.shape == passes.shape and not passes[factor.at]:
            return reason
    return ""


def _name(factor: Factor) -> str:
    return factor.text.partition("[")[0]


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
    inside, at, seen = "attention" in call.operation, gradient.at, session.seen[call.number]
    if not (_name(gradient) == "dscores" if inside else call.operation == "linear" and len(at) == 3):
        return False
    attends = [call] if inside else [each for each in session.calls if each.parent is call.parent is not None]
    width = np.shape(seen.output)[-1]  # Q, K and V stand side by side, or Q alone
    is_query = inside or at[2] < width // 3 or width // np.shape(seen.inputs[0])[-1] == 1
    row = at[2 if inside else 1]
    for seen_pairs in (_visible(session, each) for each in attends):
        if seen_pairs is not None and is_query and row < seen_pairs.shape[2]:
            return bool(seen_pairs[at[0], 0, row].sum() == 1)
    return False


def _is_of_padding(session: Recording, call: Call, gradient: Factor) -> bool:
    """Whether a gradient belongs to a token of padding; in attention, to its query."""
    step = 2 if "attention" in call.operation and len(gradient.shape) == 4 else 1  # (B, T) of (B, H, T, D)
    shape, at = gradient.shape[::step][:2], gradient.at[::step][:2]
    ids = [x for x in session.setting.inputs if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and x.ndim == 2]
    if ids:
        of_its_side = ids[len(ids) == 2 and _is_of_targets(call)]
        return bool(shape == of_its_side.shape and of_its_side[at] == session.setting.pad_id)
    visible = getattr(session.setting.options.get("mask"), "key_visible", None)
    return visible is not None and shape == visible.shape and not visible[at]


def _is_of_targets(call: Call) -> bool:
    """Whether a call of an encoder-decoder works on the targets: the projection of the memory does not."""
    around = call.parent
    reads_memory = around is not None and len(around.inputs) > 1 and call.inputs[0] is around.inputs[1]
    return call.shown_name.startswith(("decoder", "tgt", "generator", "loss")) and not reads_memory
