"""What a check knows of its problem that may explain a wrong gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npformer import functional
from npformer.functional import AttentionMask, Draw
from npformer.functional.dropout import dropout_threshold
from npformer.proof.diagnosis import Clues
from npformer.proof.subject import Host, PairSubject, Subject, subject


def clues_of(target: Any, inputs: Sequence[Any], options: Mapping[str, Any]) -> Clues:
    """Sizes, tokens, masks and heads, as far as inputs and options show them."""
    given = [*inputs, *options.values()]
    tokens = next((np.asarray(x) for x in given if isinstance(x, np.ndarray) and x.dtype.kind in "iu"), None)
    masks = (x.key_visible for x in given if isinstance(x, AttentionMask) and x.key_visible is not None)
    return Clues(
        sizes=_sizes(given, target),
        tokens=tokens,
        key_visible=next((np.asarray(mask) for mask in masks if isinstance(mask, np.ndarray)), None),
        num_heads=getattr(target, "num_heads", None),
    )


def with_reference(
    clues: Clues, checked: Subject, inputs: Sequence[Any], options: dict[str, Any], upstream: tuple[Host, ...]
) -> Clues:
    """The clues, and npformer's own pair if the checked forward has its name and computes the same."""
    if not isinstance(checked, PairSubject):
        return clues
    op = checked.forward_name.removesuffix("_forward")
    forward = getattr(functional, f"{op}_forward", None)
    backward = getattr(functional, f"{op}_backward", None)
    if forward is None or backward is None:
        return clues

    def rerun(mutant: Any) -> dict[str, Host]:
        found = subject((forward, mutant), inputs, options, None).gradients(upstream)
        return dict(zip(checked.tensors, found.values(), strict=True))

    try:
        same = all(
            np.allclose(ours, theirs, rtol=1e-9, atol=1e-12)
            for ours, theirs in zip(
                subject((forward, backward), inputs, options, None).outputs({}), checked.outputs({}), strict=True
            )
        )
    except Exception:
        return clues  # not npformer's operation, only its name
    if not same:
        return clues
    return Clues(clues.sizes, clues.tokens, clues.key_visible, clues.num_heads, backward, rerun)


def _sizes(given: Sequence[Any], target: Any) -> dict[str, float]:
    """Named numbers that a wrong factor may equal."""
    sizes: dict[str, float] = {}
    for x in given:
        if isinstance(x, Draw):
            sizes.setdefault("1/(1−p)", dropout_threshold(x.rate)[1])
        shape = getattr(x, "shape", ())
        letters = {2: "NC", 3: "BTC", 4: "BHTD"}.get(len(shape), "")
        for letter, length in zip(letters, shape, strict=len(letters) > 0):
            if length > 1:
                sizes.setdefault(letter, float(length))
    for letter in "CD":
        if letter in sizes:
            sizes[f"√{letter}"] = math.sqrt(sizes[letter])
    return sizes
