"""The document of a trace: its schema as types, and a recording written down in it. See ``docs/trace-format.md``.

Each distinct array is stored once, in base64, so that its numbers come back to the last bit.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NotRequired, TypeAlias, TypedDict

import numpy as np

from npformer._version import __version__
from npformer.check.checkable import unpacked
from npformer.check.inputs import as_tuple, is_array, is_float
from npformer.check.subject import name_of
from npformer.errors import DataError
from npformer.layers import Layer
from npformer.layers.owner import Owner
from npformer.see.record.calls import Call, gradient_names, inputs_of, shown_name
from npformer.see.record.lines import Frame, Shown, Statement
from npformer.see.record.recording import Recording, Seen
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
    columns: tuple[int, int] | None
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


def document_of(
    recording: Recording, arrays: Arrays, name: str | None, tokens: Mapping[str, Sequence[Sequence[str]]] | None
) -> Document:
    """The document; its arrays are added to arrays."""
    target = _type(recording.calls[0])
    writer = _Writer(recording, arrays)
    calls = writer.calls()
    return {
        "format": FORMAT,
        "version": VERSION,
        "npformer": __version__,
        "title": name or target,
        "kind": recording.kind,
        "target": target,
        "tokens": None if tokens is None else {key: [list(row) for row in rows] for key, rows in tokens.items()},
        "loss": arrays.value(recording.loss),
        "targets": recording.how is not None,
        "sources": writer.sources,
        "parameters": _parameters(recording, arrays),
        "calls": calls,
        "residuals": [
            ResidualOf(
                name=one.name,
                layer=None if one.call.parent is None else one.call.parent.number,
                call=one.call.number,
                through=None if one.through is None else one.through.number,
                past=arrays.add(one.past),
                into=arrays.add(one.into),
            )
            for one in recording.residuals
        ],
    }


def _parameters(recording: Recording, arrays: Arrays) -> list[ParameterOf]:
    named, values = recording.checked.parameters, recording.checked.tensors
    other = aliases_of(recording.target)
    return [
        ParameterOf(
            name=name,
            value=arrays.add(values[name]),
            gradient=arrays.add(recording.gradients[name]),
            aliases=other.get(name, []),
        )
        for name in named
    ]


def aliases_of(target: Any) -> dict[str, list[str]]:
    """Parameter -> its further names, if it is tied."""
    owned = target.owned_parameters() if isinstance(target, Layer) else ()
    return {name: list(others) for name, _, others in owned}


def _type(call: Call) -> str:
    """The operation's name, or the class of a layer."""
    kind = name_of(call.target) if isinstance(call.target, tuple) else type(call.target).__name__
    return call.operation or kind


@dataclass
class _Writer:
    """Writes calls, and notes the sources of the functions in them."""

    recording: Recording
    arrays: Arrays
    sources: dict[str, SourceOf] = field(default_factory=dict)
    _keys: dict[str, str] = field(default_factory=dict)  # path of a file -> its key in sources

    def calls(self) -> list[CallOf]:
        """All calls."""
        uses: Counter[str] = Counter()
        calls = []
        for call, seen in zip(self.recording.calls, self.recording.seen, strict=True):
            uses[call.name] += 1
            calls.append(self._call(call, seen, uses[call.name]))
        return calls

    def _call(self, call: Call, seen: Seen, use: int) -> CallOf:
        is_pair = isinstance(call.target, tuple)
        names = inputs_of(call) if call.number else self.recording.checked.input_names
        inputs = [*zip(names, seen.inputs, strict=True), *unpacked(call.options).items()]
        backward_time = call.backward_time
        return {
            "id": call.number,
            "parent": None if call.parent is None else call.parent.number,
            "name": shown_name(call),
            "use": use,
            "kind": "operation" if is_pair else "layer",
            "type": _type(call),
            "inputs": self._named(inputs),
            "outputs": self._named(_numbered("y", seen.output)),
            "cache": self._cache(seen.cache),
            "upstream": self._named(_numbered("dy", seen.upstream)) if backward_time else [],
            "gradients": self._gradients(call, seen, names),
            "added": [{"parameter": name, "array": self.arrays.add(x)} for name, x in seen.added.items()],
            "params": {
                names[i]: [PartOf(**part._asdict()) for part in parts]  # type: ignore[typeddict-item]
                for i, parts in seen.params.items()
            },
            "forward": self._way(call.forward_time, seen.forward),
            "backward": None if backward_time is None else self._way(backward_time, seen.backward),
        }

    def _gradients(self, call: Call, seen: Seen, names: list[str]) -> list[Named]:
        """What backward returned, and what it added to parameters, by input."""
        if call.backward_time is None:
            return []
        gradients = [*(() if seen.gradients is None else as_tuple(seen.gradients)), *call.added]
        if isinstance(call.target, tuple):
            of = gradient_names(call.target, len(gradients))
        else:
            of = [name for name, x in zip(names, seen.inputs, strict=False) if is_float(x)]
        of = (of + [f"input{i}" for i in range(len(gradients))])[: len(gradients)]
        return [{"name": f"d{name}", "of": name, "value": self.value(x)} for name, x in zip(of, gradients, strict=True)]

    def _cache(self, cache: Any) -> list[Named]:
        if isinstance(cache, tuple) and hasattr(cache, "_fields"):
            return self._named(zip(cache._fields, cache, strict=True))
        if isinstance(cache, tuple | list):
            return self._named((str(i), x) for i, x in enumerate(cache))
        return self._named(cache.items()) if isinstance(cache, dict) else []

    def _named(self, pairs: Iterable[tuple[str, Any]]) -> list[Named]:
        return [{"name": str(name), "value": self.value(x)} for name, x in pairs]

    def value(self, x: Any) -> Value:
        """x as a Value."""
        return self.arrays.value(x)

    def _way(self, time: tuple[int, int], frame: Frame | None) -> Pass:
        function = None if frame is None else self._function(frame.function)
        lines = [] if frame is None else [self._line(step) for step in frame.steps]
        return {"start": time[0], "end": time[1], "function": function, "lines": lines}

    def _line(self, step: Statement) -> LineOf:
        line: LineOf = {"line": step.line, "values": self._values(step.values)}
        if step.inside:
            line["inside"] = [self._frame(frame) for frame in step.inside]
        return line

    def _frame(self, frame: Frame) -> FrameOf:
        return {
            "function": self._function(frame.function),
            "arguments": self._values(frame.arguments),
            "lines": [self._line(step) for step in frame.steps],
            "returned": self.value(frame.returned),
        }

    def _values(self, values: Mapping[str, Any]) -> dict[str, Value]:
        """The values to show: no modules, functions, classes or layers."""
        told = {name: x for name, x in values.items() if not isinstance(x, ModuleType | Owner) and not callable(x)}
        return {name: self.value(x) for name, x in told.items()}

    def _function(self, shown: Shown) -> str:
        """The key of a function, whose source is noted."""
        if shown.path not in self._keys:
            key = stem = Path(shown.path).stem
            while key in self.sources:  # a user's file of the same name
                key = f"{key}_{stem}"
            self._keys[shown.path] = key
            self.sources[key] = {"file": shown.path, "doc": shown.doc, "functions": {}}
        key = self._keys[shown.path]
        self.sources[key]["functions"][shown.name] = {"first": shown.code.co_firstlineno, "text": shown.text}
        return f"{key}.{shown.name}"


def _numbered(name: str, x: Any) -> list[tuple[str, Any]]:
    """One output, or several by number."""
    if isinstance(x, tuple | list):
        return [(f"{name}{i}", part) for i, part in enumerate(x)]
    return [(name, x)]


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
