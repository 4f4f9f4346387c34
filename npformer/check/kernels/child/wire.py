"""Requests and answers: a line of JSON, then the bytes of arrays. Nothing that comes is executed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LONGEST, MOST = 1 << 20, 1 << 28  # bytes of a line, and of an array


def send(stream: Any, head: dict[str, Any], arrays: Sequence[Any] = ()) -> None:
    """Write head and arrays."""
    told = {**head, "arrays": [[x.dtype.str, x.shape] for x in arrays]}
    stream.write(json.dumps(told).encode() + b"\n" + b"".join(x.tobytes() for x in arrays))
    stream.flush()


def receive(stream: Any) -> tuple[dict[str, Any], list[Any]]:
    """What ``send`` wrote. Raises EOFError at the end, and an exception of another kind for other bytes."""
    line = stream.readline(LONGEST)
    if not line.endswith(b"\n"):
        raise EOFError
    head, arrays = json.loads(line), []
    for kind, shape in head.pop("arrays"):
        count = math.prod(shape) * np.dtype(kind).itemsize
        data = stream.read(count) if 0 <= count <= MOST else b""
        if len(data) != count:
            raise EOFError
        arrays.append(np.frombuffer(data, kind).reshape(shape))
    return head, arrays
