"""The name, the two token axes and the weights of each attention, checked before anything is drawn."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from npformer.errors import DTypeError, ShapeError

_LAYER_NUMBER = re.compile(r"\.(\d+)\.")
#: Softmax in float32 may overshoot 1 by rounding; anything further is not a weight.
_ROUNDING = 1e-3


class AttentionMap(NamedTuple):
    """One attention of a model for one example: a row of the picture."""

    title: str  # "decoder 2 · cross-attention"
    reading: str  # "target tokens look at source tokens"
    weights: npt.NDArray[np.float64]  # (H, T, S)
    queries: list[str]  # T query tokens
    keys: list[str]  # S key tokens


def attention_map(name: str, weights: npt.NDArray[np.generic], source: list[str], target: list[str]) -> AttentionMap:
    """Give one attention its title and its tokens.

    A name that starts with "encoder" attends from source to source, a name that contains "cross" from target to
    source, any other from target to target. weights is (H, T, S).
    Raises ShapeError if weights does not fit these tokens, DTypeError if it holds no attention weights.
    """
    side = "source" if name.startswith("encoder") else "target"
    other = "source" if "cross" in name else side
    sides = {"source": source, "target": target}
    queries, keys = sides[side], sides[other]
    _check(name, weights, (side, len(queries)), (other, len(keys)))
    reading = f"{side} tokens look at {other} tokens"
    return AttentionMap(_title(name), reading, np.asarray(weights, dtype=np.float64), queries, keys)


def _title(name: str) -> str:
    number = _LAYER_NUMBER.search(name)
    if number is None:
        return name
    part = name.split(".")[0]
    kind = name.rsplit(".", 1)[-1].replace("_", "-")
    return f"{part.removesuffix('s')} {int(number.group(1)) + 1} · {kind}"


def _check(name: str, weights: npt.NDArray[np.generic], query: tuple[str, int], key: tuple[str, int]) -> None:
    (side, rows), (other, columns) = query, key
    if weights.ndim != 3 or 0 in weights.shape or weights.shape[1:] != (rows, columns):
        raise ShapeError(
            f"{name}: expected weights (H, T={rows} {side} tokens, S={columns} {other} tokens), none of "
            f"them 0, got {weights.shape}; pass one example without its batch axis, with all its tokens"
        )
    if weights.dtype.kind != "f":
        raise DTypeError(f"{name}: expected floating-point weights, got {weights.dtype}; pass the softmax")
    finite = weights[np.isfinite(weights)]
    if finite.size and not -_ROUNDING <= finite.min() <= finite.max() <= 1 + _ROUNDING:
        raise DTypeError(
            f"{name}: expected weights between 0 and 1, got {finite.min():.3g} to {finite.max():.3g}; "
            "pass the weights after the softmax and without dropout"
        )
