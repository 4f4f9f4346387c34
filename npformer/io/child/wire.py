"""Requests and answers: a line of JSON, then the bytes of arrays, little-endian, in C's order. Nothing is executed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LINE, MOST = 1 << 24, 1 << 30  # bytes of a line, and of an array
FORM = '{"dtypes": ["float64"], "shapes": [[5, 4]]}'


def send(stream: Any, head: dict[str, Any], arrays: Sequence[Any] = ()) -> None:
    """Write head and arrays. Raises TypeError if head is not what JSON can say."""
    told = {**head, "dtypes": [x.dtype.name for x in arrays], "shapes": [x.shape for x in arrays]}
    parts = [x.astype(x.dtype.newbyteorder("<"), copy=False).tobytes() for x in arrays]
    stream.write(json.dumps(told).encode() + b"\n" + b"".join(parts))
    stream.flush()


def receive(stream: Any) -> tuple[dict[str, Any], list[Any]]:
    """What ``send`` wrote. Raises EOFError at the end, ValueError for other bytes."""
    line = stream.readline(LINE)
    if not line:
        raise EOFError
    try:
        head = dict(json.loads(line))
        kinds = [np.dtype(name).newbyteorder("<") for name in head.get("dtypes", ())]
        forms = list(zip(kinds, head.get("shapes", ()), strict=True))
        if min((n for _, shape in forms for n in shape), default=0) < 0:
            raise ValueError
    except (ValueError, TypeError):
        raise ValueError(f"expected a line such as {FORM}, got {line[:200]!r}; print other text elsewhere") from None
    return head, [_array(stream, *form) for form in forms]


def _array(stream: Any, kind: Any, shape: list[int]) -> Any:
    data = stream.read(min(math.prod(shape) * kind.itemsize, MOST))
    try:
        return np.frombuffer(data, kind).reshape(shape).astype(kind.newbyteorder("="))
    except ValueError:
        raise ValueError(f"expected an array {shape} of {kind.name}, got {len(data)} bytes") from None
