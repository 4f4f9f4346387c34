"""``npf.trace``: every number of one forward and one backward, as a tree of calls that can be kept as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from npformer.check.measures import max_abs
from npformer.errors import ConfigError, DataError
from npformer.io.notebook import Displayed
from npformer.io.printable import visible
from npformer.see.record.document import (
    FORMAT,
    VERSION,
    Arrays,
    CallOf,
    Document,
    Named,
    decoded,
    document_of,
    encoded,
)
from npformer.see.record.recording import Recording, record
from npformer.typing import HostArrays

#: The most bytes of distinct arrays in a trace, unless ``limit`` says another number.
LIMIT = 64_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Displayed):
    """A recorded forward and backward. ``docs/trace-format.md`` describes the document."""

    document: Document
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
        missing = Document.__annotations__.keys() - document.keys()
        if missing:
            raise DataError(f"trace: expected a whole document, got one without {', '.join(sorted(missing))}")
        return cls(document, arrays)  # type: ignore[arg-type]

    @property
    def calls(self) -> list[CallOf]:
        """The calls of the document, in forward order."""
        return self.document["calls"]

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
    row or its name. inputs, names and options as for ``npf.gradcheck``. target is not changed.
    targets: token ids or classes; then L is the cross-entropy of the output, which ignore_index (None: the padding of
    the model's configuration, if there is one) and label_smoothing describe. upstream: the gradient of the output
    instead, an array or a tuple; without both it is random, drawn from seed.
    name: the title. tokens: shown labels of the positions, by the name of a sequence, such as "source"; as
    "pieces" one row, what each id is called. lines: also record the values after each source line. limit: the most
    bytes of distinct arrays.

    Raises ConfigError if the trace would be larger than limit, and says how large and what to make smaller; what
    ``npf.gradcheck`` raises for targets and inputs that do not fit.
    """
    named = getattr(target, "named_parameters", tuple)
    most_numbers = sum(int(np.size(parameter.data)) for _, parameter in named()) if callable(named) else 0
    if 16 * most_numbers > limit:  # each has a value and a gradient
        what = f"the values and gradients of its {most_numbers:,} parameters alone; make the model smaller"
        raise _too_large(16 * most_numbers, limit, what)
    if ignore_index is None and targets is not None:
        ignore_index = getattr(getattr(target, "config", None), "pad_id", None)
    recording = record(
        target, *inputs, targets=targets, ignore_index=ignore_index, label_smoothing=label_smoothing,
        upstream=upstream, names=names, lines=lines, seed=seed, **options,
    )  # fmt: skip
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


#: The columns of a trace as text.
HEADER = ("call", "output", "largest", "upstream")


def _text(document: Document, arrays: HostArrays, width: int | None = None) -> str:
    """A line for each call: its output's shape and largest entry, and the largest entry of its upstream gradient.

    width: of the terminal; None: as wide as it gets. On a narrow terminal, a name leaves out that of the call around
    it, and a name that is too long has a line of its own.
    """
    rows = list(_rows(document, arrays))
    widths = [max(map(len, column)) for column in zip(HEADER[1:], *(row.numbers for row in rows), strict=True)]
    room = (width or math.inf) - sum(widths) - 2 * len(widths)
    names = [row.full for row in rows]
    if max(map(len, names)) > room:
        names = [row.short for row in rows]
    first = max(len(name) for name in (HEADER[0], *names) if len(name) <= room)
    lines = [visible(document["title"])]
    for name, numbers in ((HEADER[0], HEADER[1:]), *zip(names, (row.numbers for row in rows), strict=True)):
        if len(name) > first:
            lines.append(name)
        cells = [number.rjust(wide) for number, wide in zip(numbers, widths, strict=True)]
        lines.append("  ".join([("" if len(name) > first else name).ljust(first), *cells]))
    return "\n".join([*lines, _summary(document, arrays)])


class _Row(NamedTuple):
    """A call: its name, the same without that of the call around it, and its numbers."""

    full: str
    short: str
    numbers: tuple[str, ...]


def _rows(document: Document, arrays: HostArrays) -> Iterator[_Row]:
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
        yield _Row(margin + full, margin + last, (shape, largest, upstream))


def _summary(document: Document, arrays: HostArrays) -> str:
    total = f"{document['loss']:.6g}" if isinstance(document["loss"], float) else "no finite number"
    loss = f"loss {total}" if document["targets"] else f"L = Σ dy·y = {total}"
    size = sum(x.nbytes for x in arrays.values())
    count = "1 call" if len(document["calls"]) == 1 else f"{len(document['calls'])} calls"
    return f"{loss}; {count}, {len(arrays)} arrays, {size:,} bytes of numbers"


def _shape_and_largest(values: list[Named], arrays: HostArrays) -> tuple[str, str]:
    """The shape and the largest entry of the first array."""
    for named in values:
        if isinstance(named["value"], str):
            x = arrays[named["value"]]
            return "×".join(map(str, x.shape)) or "()", f"{max_abs(x):.3g}"
    return "", "–"
