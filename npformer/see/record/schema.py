"""The form of a trace as JSON: its schema as types, arrays by number, and values. See ``docs/trace-format.md``.

Each distinct array is stored once, in base64, so that its numbers come back to the last bit.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NotRequired, TypeAlias, TypedDict

import numpy as np

from npformer.check.inputs import is_array
from npformer.errors import DataError
from npformer.typing import HostArray, HostArrays

FORMAT, VERSION = "npformer-trace", 1

#: "a12" an array · a number, true, false, null · {"number": "inf"} · {"text": …} · {"type": …, "names": …, "items": …}
Value: TypeAlias = "str | float | int | bool | dict[str, Any] | None"


class Named(TypedDict):
    """An input, output, entry of a cache, or gradient; a gradient says of which input it is."""

    name: str
    value: Value
    of: NotRequired[str]


class Added(TypedDict):
    """What a call added to the gradient of a parameter."""

    parameter: str
    array: str


class PartOf(TypedDict):
    """A parameter in an input: its columns there (null: all), and whether it is transposed."""

    parameter: str
    columns: list[int] | None
    transposed: bool


class LineOf(TypedDict):
    """One statement that ran, by its first line, and the names that it changed; "return" is what it returned."""

    line: int
    values: dict[str, Value]
    inside: NotRequired[list[FrameOf]]


class FrameOf(TypedDict):
    """A function that a statement called."""

    function: str  # "softmax.softmax_forward": a file in sources, and a function in it
    arguments: dict[str, Value]
    lines: list[LineOf]
    returned: Value


class Pass(TypedDict):
    """The forward or the backward of a call. start and end count all beginnings and ends of calls."""

    start: int
    end: int
    function: str | None
    lines: list[LineOf]


class CallOf(TypedDict):
    """One call of a layer or an operation."""

    id: int
    parent: int | None
    name: str
    use: int
    kind: str
    type: str
    inputs: list[Named]
    outputs: list[Named]
    cache: list[Named]
    upstream: list[Named]
    gradients: list[Named]
    added: list[Added]
    params: dict[str, list[PartOf]]
    forward: Pass
    backward: Pass | None


class ParameterOf(TypedDict):
    """A parameter, its gradient, and its further names if it is tied."""

    name: str
    value: str
    gradient: str
    aliases: list[str]


class ResidualOf(TypedDict):
    """A sum of the residual stream: the gradient past the sub-layer, and into it."""

    name: str
    layer: int | None
    call: int
    through: int | None
    past: str
    into: str


class FunctionOf(TypedDict):
    """A function's source, and its first line in its file."""

    first: int
    text: str | None


class SourceOf(TypedDict):
    """A file of sources."""

    file: str
    doc: str
    functions: dict[str, FunctionOf]


class Document(TypedDict):
    """A trace without its arrays."""

    format: str
    version: int
    npformer: str
    title: str
    kind: str
    target: str
    tokens: dict[str, list[list[str]]] | None
    loss: Value
    targets: bool
    sources: dict[str, SourceOf]
    parameters: list[ParameterOf]
    calls: list[CallOf]
    residuals: list[ResidualOf]


class Arrays:
    """The distinct arrays of a trace. Beyond ``most`` bytes they are only counted, for an error to say how many."""

    def __init__(self, host: Callable[[Any], Any], most: int) -> None:
        self.by_name: HostArrays = {}
        self.bytes = 0
        self._host, self._most = host, most
        self._names: dict[tuple[str, tuple[int, ...], bytes | int], str] = {}

    @property
    def is_full(self) -> bool:
        """Whether there were more than most bytes."""
        return self.bytes > self._most

    def add(self, x: Any) -> str:
        """The name of an array, which is stored if it is new."""
        array = _plain(self._numpy(x))
        content = array.tobytes()
        key = (array.dtype.name, array.shape, hash(content) if self.is_full else content)
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"a{len(self._names)}"
            self.bytes += array.nbytes
            if not self.is_full:
                self.by_name[name] = array.copy()
        return name

    def value(self, x: Any) -> Value:
        """x as a Value."""
        if is_array(x):
            x = self._numpy(x)
            return self.add(x) if x.dtype.kind in "fiub" else _opaque(x)
        if x is None or isinstance(x, bool | int):
            return x
        if isinstance(x, float):
            return x if math.isfinite(x) else {"number": str(x)}
        if isinstance(x, str):
            return {"text": x}
        if isinstance(x, tuple | list):
            names = list(getattr(x, "_fields", ())) or None
            return self._group(x, names, x)
        if isinstance(x, Mapping):
            return self._group({}, list(map(str, x)), x.values())
        if is_dataclass(x) and not isinstance(x, type):
            names = [field.name for field in fields(x)]
            return self._group(x, names, [getattr(x, name) for name in names])
        return _opaque(x)

    def _numpy(self, x: Any) -> HostArray:
        return np.asarray(x if isinstance(x, np.ndarray | np.generic) else self._host(x))

    def _group(self, x: Any, names: list[str] | None, items: Iterable[Any]) -> Value:
        return {"type": type(x).__name__, "names": names, "items": [self.value(part) for part in items]}


def _opaque(x: Any) -> Value:
    """What cannot be shown number by number."""
    name = getattr(x, "__name__", "")
    return {"type": type(x).__name__, "text": name if isinstance(name, str) else ""}


def _plain(x: HostArray) -> HostArray:
    """x as float64, int64 or bool."""
    return x.astype({"f": np.float64, "b": np.bool_}.get(x.dtype.kind, np.int64), copy=False)


def encoded(arrays: HostArrays) -> dict[str, dict[str, Any]]:
    """Arrays as JSON: dtype, shape, and base64 of their bytes, little-endian, the last axis fastest."""
    return {
        name: {
            "dtype": x.dtype.name,
            "shape": list(x.shape),
            "data": base64.b64encode(x.astype(x.dtype.newbyteorder("<"), copy=False).tobytes()).decode("ascii"),
        }
        for name, x in arrays.items()
    }


def decoded(arrays: Any) -> HostArrays:
    """The arrays that ``encoded`` made. Raises DataError for anything else."""
    by_name: HostArrays = {}
    try:
        for name, entry in arrays.items():
            if entry["dtype"] not in ("float64", "int64", "bool"):
                raise ValueError(f"dtype {entry['dtype']!r}")
            kind = np.dtype(entry["dtype"]).newbyteorder("<")
            raw = base64.b64decode(entry["data"], validate=True)
            by_name[name] = np.frombuffer(raw, dtype=kind).reshape(entry["shape"]).astype(entry["dtype"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"trace: expected arrays of float64, int64 or bool in base64, got {error}") from error
    return by_name
