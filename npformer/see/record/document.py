"""Writes a recording down as the document of a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from npformer._version import __version__
from npformer.check.checkable import unpacked
from npformer.check.inputs import as_tuple, is_float
from npformer.check.subject import name_of
from npformer.layers.owner import Owner
from npformer.see.record.jacobian import gradient_names
from npformer.see.record.lines import Frame, Shown, Step
from npformer.see.record.listening import Call, inputs_of, shown_name
from npformer.see.record.parameter_parts import aliases
from npformer.see.record.recording import Recording, Seen
from npformer.see.record.schema import (
    FORMAT,
    VERSION,
    Arrays,
    CallOf,
    Document,
    FrameOf,
    LineOf,
    Named,
    ParameterOf,
    Pass,
    ResidualOf,
    SourceOf,
    Value,
)


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
    other = aliases(recording.target, named)
    return [
        ParameterOf(
            name=name,
            value=arrays.add(values[name]),
            gradient=arrays.add(recording.gradients[name]),
            aliases=other[name],
        )
        for name in named
    ]


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
                names[i]: [
                    {
                        "parameter": p.parameter,
                        "columns": None if p.columns is None else list(p.columns),
                        "transposed": p.transposed,
                    }
                    for p in parts
                ]
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

    def _line(self, step: Step) -> LineOf:
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
