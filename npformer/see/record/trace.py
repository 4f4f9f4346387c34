"""``npf.trace``: every number of one forward and one backward, as a tree of calls that can be kept as JSON.

A trace's document has the names of arrays in it. ``docs/trace-format.md`` tells every key. Each distinct array is
stored once, in base64, so that its numbers come back to the last bit.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from npformer._version import __version__
from npformer.backend import PLAIN
from npformer.check.cases.op_samples import op_sample
from npformer.check.checkable import unpacked
from npformer.check.in_float64 import plain_row
from npformer.check.inputs import as_tuple, is_array, is_float
from npformer.check.measures import max_abs
from npformer.check.subject import name_of
from npformer.errors import ConfigError, DataError
from npformer.io.notebook import Displayed
from npformer.io.printable import visible
from npformer.io.terminal import counted
from npformer.layers import Layer
from npformer.layers.owner import Owner
from npformer.see.record.calls import Call, gradient_names
from npformer.see.record.lines import Frame, Shown, Statement
from npformer.see.record.recording import Recording, Seen, Setting, prepared
from npformer.typing import HostArray, HostArrays

FORMAT, VERSION = "npformer-trace", 1
#: The keys of a document, beside its arrays.
KEYS = {
    "format", "version", "npformer", "title", "kind", "target", "tokens", "loss", "targets", "sources", "parameters",
    "calls", "residuals",
}  # fmt: skip
#: The most bytes of distinct arrays in a trace, unless ``limit`` says another number.
LIMIT = 64_000_000
#: The columns of a trace as text.
HEADER = ("call", "output", "largest", "upstream")

#: A part of a document: a value, a call, a line.
Json: TypeAlias = dict[str, Any]
#: "a12" an array · a number, true, false, null · {"number": "inf"} · {"text": …} · {"type": …, "names": …, "items": …}
Value: TypeAlias = "str | float | int | bool | Json | None"


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Displayed):
    """A recorded forward and backward. ``docs/trace-format.md`` describes the document."""

    document: Json
    arrays: HostArrays  # by the names in the document: "a0", "a1", …
    recording: Recording | None = None  # the live calls; None if the trace was read from JSON

    def to_json(self) -> str:
        """The trace as JSON text; ``from_json`` reads it."""
        return json.dumps({**self.document, "arrays": encoded(self.arrays)}, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Trace:
        """The trace that ``to_json`` wrote. Raises DataError for anything else."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"trace: expected JSON, got: {error}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise DataError(f"trace: expected JSON with the format {FORMAT!r}, got another document")
        if document.get("version") != VERSION:
            raise DataError(
                f"trace: expected version {VERSION}, got {document.get('version')!r}; make it again with this npformer"
            )
        arrays = decoded(document.pop("arrays", None))
        missing = KEYS - document.keys()
        if missing:
            raise DataError(f"trace: expected a whole document, got one without {', '.join(sorted(missing))}")
        return cls(document, arrays)

    @property
    def calls(self) -> list[Json]:
        """The calls of the document, in forward order."""
        calls: list[Json] = self.document["calls"]
        return calls

    def __repr__(self) -> str:
        return f"<Trace of {visible(self.document['title'])}: {_summary(self.document, self.arrays)}>"

    def __str__(self) -> str:
        """The tree of calls, with the shapes and the largest entries of outputs and upstream gradients."""
        return self.text()

    def text(self, width: int | None = None) -> str:
        """The same for a terminal of this width, 60 or more; None: as wide as it gets."""
        return _text(self.document, self.arrays, width)


def trace(
    target: Any,
    *inputs: Any,
    targets: Any = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    upstream: Any = None,
    names: Sequence[str] | None = None,
    name: str | None = None,
    tokens: Mapping[str, Sequence[Sequence[str]]] | None = None,
    lines: bool = True,
    limit: int = LIMIT,
    seed: int = 0,
    **options: Any,
) -> Trace:
    """Record every call of one forward and one backward of target, in float64 with the plain kernels.

    target: a layer or model, your own included; a pair (``npf.Pair`` or ``(forward, backward)``); an operation by its
    row or its name, which without inputs runs on its sample. inputs, names and options as for ``npf.gradcheck``. target
    is not changed.
    targets: token ids or classes; then L is the cross-entropy of the output, which ignore_index (None: the padding of
    the model's configuration, if there is one) and label_smoothing describe. upstream: the gradient of the output
    instead, an array or a tuple; without both it is random, drawn from seed.
    name: the title. tokens: shown labels of the positions, by the name of a sequence, such as "source"; as
    "pieces" one row, what each id is called. lines: also record the values after each source line. limit: the most
    bytes of distinct arrays.

    Raises ConfigError if the trace would be larger than limit, and says how large and what to make smaller; for another
    target, and for targets beside upstream; ShapeError for an upstream of another shape; what ``npf.gradcheck`` raises
    for inputs that do not fit.
    """
    if targets is not None and upstream is not None:
        raise ConfigError(
            "upstream: expected none beside targets, whose loss makes the upstream gradient; leave one out"
        )
    named = getattr(target, "named_parameters", tuple)
    most_numbers = sum(int(np.size(parameter.data)) for _, parameter in named()) if callable(named) else 0
    if 16 * most_numbers > limit:  # each has a value and a gradient
        what = f"the values and gradients of its {most_numbers:,} parameters alone; make the model smaller"
        raise _too_large(16 * most_numbers, limit, what)
    if ignore_index is None and targets is not None:
        ignore_index = getattr(getattr(target, "config", None), "pad_id", None)
    row = plain_row(target)
    if isinstance(target, str) and row is None:
        raise ConfigError(f"target: expected the name of an operation, got {target!r}; one of {', '.join(vars(PLAIN))}")
    if row is not None:
        target, inputs = getattr(PLAIN, row.name), inputs or op_sample(row.name).inputs
    recording = prepared(Setting("", target, inputs, options, targets), ignore_index, label_smoothing, names)
    with recording.opened(lines, upstream, seed):
        return written(recording, name, tokens, limit)


def written(
    recording: Recording, name: str | None, tokens: Mapping[str, Sequence[Sequence[str]]] | None, limit: int = LIMIT
) -> Trace:
    """The trace of a recording; name, tokens and limit, and what is raised, as for ``trace``."""
    arrays = Arrays(recording.checked.device.host, limit)
    document = document_of(recording, arrays, name, tokens)
    if arrays.is_full:
        has_lines = any(seen.forward is not None for seen in recording.seen)
        without = ", or leave out the lines (lines=False, --no-lines)" if has_lines else ""
        what = f"its {len(recording.calls)} calls; make the batch, the sequences or the model smaller{without}"
        raise _too_large(arrays.bytes, limit, what)
    return Trace(document, arrays.by_name, recording)


def _too_large(size: int, limit: int, what: str) -> ConfigError:
    return ConfigError(
        f"trace: expected at most {limit / 1e6:.3g} MB of numbers, got {size / 1e6:.3g} MB: {what}, or raise the limit "
        "(limit=, --limit)"
    )


def _text(document: Json, arrays: HostArrays, width: int | None = None) -> str:
    """A line for each call: its output's shape and largest entry, and the largest entry of its upstream gradient.

    width: of the terminal; None: as wide as it gets. On a narrow terminal, a name leaves out that of the call around
    it, and a name that is too long has a line of its own.
    """
    full, short, rows = zip((HEADER[0], HEADER[0], HEADER[1:]), *_rows(document, arrays), strict=True)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = (width or math.inf) - sum(widths) - 2 * len(widths)
    names = full if max(map(len, full)) <= room else short
    first = max(len(name) for name in names if len(name) <= room)
    lines = [visible(document["title"])]
    for name, numbers in zip(names, rows, strict=True):
        if len(name) > first:
            lines.append(name)
        cells = [number.rjust(wide) for number, wide in zip(numbers, widths, strict=True)]
        lines.append("  ".join([("" if len(name) > first else name).ljust(first), *cells]))
    return "\n".join([*lines, _summary(document, arrays)])


def _rows(document: Json, arrays: HostArrays) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Of each call its name, the same without that of the call around it, and its numbers."""
    depths: dict[int | None, int] = {None: -1}
    names: dict[int | None, str] = {None: ""}
    for call in document["calls"]:
        depth = depths[call["id"]] = depths[call["parent"]] + 1
        name = names[call["id"]] = call["name"]
        shape, largest = _shape_and_largest(call["outputs"], arrays)
        _, upstream = _shape_and_largest(call["upstream"], arrays)
        again = f" ({call['use']})" if call["use"] > 1 else ""
        full, margin = visible(f"{name or document['target']}{again}"), "  " * depth
        around = names[call["parent"]]
        last = full[len(visible(around)) :] if around and name.startswith(f"{around}.") else full
        yield margin + full, margin + last, (shape, largest, upstream)


def _summary(document: Json, arrays: HostArrays) -> str:
    total = f"{document['loss']:.6g}" if isinstance(document["loss"], float) else "no finite number"
    loss = f"loss {total}" if document["targets"] else f"L = Σ dy·y = {total}"
    size = sum(x.nbytes for x in arrays.values())
    return f"{loss}; {counted(len(document['calls']), 'call')}, {len(arrays)} arrays, {size:,} bytes of numbers"


def _shape_and_largest(values: list[Json], arrays: HostArrays) -> tuple[str, str]:
    """The shape and the largest entry of the first array."""
    for named in values:
        if isinstance(named["value"], str):
            x = arrays[named["value"]]
            return "×".join(map(str, x.shape)) or "()", f"{max_abs(x):.3g}"
    return "", "–"


@dataclass
class Arrays:
    """The distinct arrays of a trace. Beyond ``most`` bytes they are only counted, for an error to say how many."""

    _host: Callable[[Any], Any]
    _most: int
    by_name: HostArrays = field(default_factory=dict)
    bytes: int = 0
    _names: dict[Any, str] = field(default_factory=dict)  # by dtype, shape, and bytes or their hash

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
) -> Json:
    """The document; its arrays are added to arrays."""
    target = _type(recording.calls[0])
    writer, aliases = _Writer(recording, arrays), aliases_of(recording.target)
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
        "parameters": [
            {
                "name": name,
                "value": arrays.add(recording.checked.tensors[name]),
                "gradient": arrays.add(recording.gradients[name]),
                "aliases": aliases.get(name, []),
            }
            for name in recording.checked.parameters
        ],
        "calls": calls,
        "residuals": [
            {
                "name": one.name,
                "layer": None if one.call.parent is None else one.call.parent.number,
                "call": one.call.number,
                "through": None if one.through is None else one.through.number,
                "past": arrays.add(one.past),
                "into": arrays.add(one.into),
            }
            for one in recording.residuals
        ],
    }


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
    sources: dict[str, Json] = field(default_factory=dict)
    _keys: dict[str, str] = field(default_factory=dict)  # path of a file -> its key in sources

    def calls(self) -> list[Json]:
        """All calls."""
        uses: Counter[str] = Counter()
        calls = []
        for call, seen in zip(self.recording.calls, self.recording.seen, strict=True):
            uses[call.name] += 1
            calls.append(self._call(call, seen, uses[call.name]))
        return calls

    def _call(self, call: Call, seen: Seen, use: int) -> Json:
        is_pair = isinstance(call.target, tuple)
        names = call.input_names if call.number else self.recording.checked.input_names
        inputs = [*zip(names, seen.inputs, strict=True), *unpacked(call.options).items()]
        backward_time = call.backward_time
        return {
            "id": call.number,
            "parent": None if call.parent is None else call.parent.number,
            "name": call.shown_name,
            "use": use,
            "kind": "operation" if is_pair else "layer",
            "type": _type(call),
            "inputs": self._named(inputs),
            "outputs": self._named(_numbered("y", seen.output)),
            "cache": self._cache(seen.cache),
            "upstream": self._named(_numbered("dy", seen.upstream)) if backward_time else [],
            "gradients": self._gradients(call, seen, names),
            "added": [{"parameter": name, "array": self.arrays.add(x)} for name, x in seen.added.items()],
            "params": {names[i]: [part._asdict() for part in parts] for i, parts in seen.params.items()},
            "forward": self._way(call.forward_time, seen.forward),
            "backward": None if backward_time is None else self._way(backward_time, seen.backward),
        }

    def _gradients(self, call: Call, seen: Seen, names: list[str]) -> list[Json]:
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

    def _cache(self, cache: Any) -> list[Json]:
        if isinstance(cache, tuple) and hasattr(cache, "_fields"):
            return self._named(zip(cache._fields, cache, strict=True))
        if isinstance(cache, tuple | list):
            return self._named((str(i), x) for i, x in enumerate(cache))
        return self._named(cache.items()) if isinstance(cache, dict) else []

    def _named(self, pairs: Iterable[tuple[str, Any]]) -> list[Json]:
        return [{"name": str(name), "value": self.value(x)} for name, x in pairs]

    def value(self, x: Any) -> Value:
        """x as a Value."""
        return self.arrays.value(x)

    def _way(self, time: tuple[int, int], frame: Frame | None) -> Json:
        function = None if frame is None else self._function(frame.function)
        lines = [] if frame is None else [self._line(step) for step in frame.steps]
        return {"start": time[0], "end": time[1], "function": function, "lines": lines}

    def _line(self, step: Statement) -> Json:
        line: Json = {"line": step.line, "values": self._values(step.values)}
        if step.inside:
            line["inside"] = [self._frame(frame) for frame in step.inside]
        return line

    def _frame(self, frame: Frame) -> Json:
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
