"""Facts about a check's target that may explain a wrong gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npformer.check.causes.patterns import Clues
from npformer.check.checkable import is_of_layers, unpacked
from npformer.functional import AttentionMask, Draw
from npformer.functional.dropout import dropout_threshold

if TYPE_CHECKING:
    from npformer.layers import Layer


def clues_of(target: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Clues:
    """Sizes, tokens, masks and heads, as far as they appear in inputs, options and the target's attributes."""
    values = [*inputs, *unpacked(options).values()]
    tokens = next((np.asarray(x) for x in values if isinstance(x, np.ndarray) and x.dtype.kind in "iu"), None)
    masks = (x.key_visible for x in values if isinstance(x, AttentionMask) and x.key_visible is not None)
    return Clues(
        sizes=_sizes(values, target),
        tokens=tokens,
        key_visible=next((np.asarray(mask) for mask in masks if isinstance(mask, np.ndarray)), None),
        num_heads=getattr(target, "num_heads", None),
    )


def all_layers(target: Any) -> list[Layer]:
    """A layer and all layers in it, each once; empty for anything else."""
    return list(dict.fromkeys(target.all_layers())) if is_of_layers(target, "Layer") else []


def _sizes(values: Sequence[Any], target: Any) -> dict[str, float]:
    """Named numbers that a wrong factor may equal, from the first float array, tokens and the target's attributes."""
    sizes: dict[str, float] = {}
    arrays = [x for x in values if getattr(x, "ndim", 0) in (2, 3, 4)]
    tokens = [("BT", x.shape) for x in arrays if x.ndim == 2 and str(x.dtype).startswith("int")]
    floats = [({2: "NC", 3: "BTC", 4: "BHTD"}[x.ndim], x.shape) for x in arrays if "float" in str(x.dtype)]
    for letters, shape in [*floats[:1], *tokens[:1]]:
        for letter, length in zip(letters, shape, strict=True):
            sizes.setdefault(letter, float(length))
    if len(floats) > 1 and len(floats[1][1]) > 2:  # keys, or a memory
        sizes.setdefault("S", float(floats[1][1][-2]))
    for letter, name in (("H", "num_heads"), ("C", "d_model"), ("F", "d_ff")):
        length = getattr(target, name, None)
        if isinstance(length, int):
            sizes.setdefault(letter, float(length))
    if "H" in sizes and "C" in sizes:
        sizes.setdefault("D", sizes["C"] / sizes["H"])
    sizes = {letter: size for letter, size in sizes.items() if size > 1}
    sizes |= {f"√{letter}": math.sqrt(sizes[letter]) for letter in "CD" if letter in sizes}
    return sizes | _dropout_scale(values, target)


def _dropout_scale(values: Sequence[Any], target: Any) -> dict[str, float]:
    """1/(1−p) of active dropout: from an operation's draw, or from a layer's rate if there is a key."""
    rates = [x.rate for x in values if isinstance(x, Draw)]
    if any(is_of_layers(x, "RandomKey") for x in values):
        rates += [rate for name in ("dropout", "rate") if isinstance(rate := getattr(target, name, None), float)]
    return {"1/(1−p)": dropout_threshold(rates[0])[1]} if rates and rates[0] > 0 else {}
