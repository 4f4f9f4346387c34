"""``npf.trace``: every number of one forward and one backward, as a tree of calls that can be kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npformer.errors import ConfigError, DataError
from npformer.proof.record import record
from npformer.proof.recording import Recording
from npformer.proof.trace_document import document_of
from npformer.proof.trace_json import FORMAT, VERSION, Arrays, CallOf, Document, decoded, encoded
from npformer.proof.trace_text import text_of
from npformer.typing import HostArrays

#: The most bytes of distinct arrays in a trace, unless ``limit`` says another number.
LIMIT = 64_000_000


@dataclass(frozen=True, eq=False)
class Trace:
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
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"trace: expected JSON, got: {error}") from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise DataError(f"trace: expected JSON with the format {FORMAT!r}, got another document")
        if found.get("version") != VERSION:
            raise DataError(
                f"trace: expected version {VERSION}, got {found.get('version')!r}; make it again with this npformer"
            )
        arrays = decoded(found.pop("arrays", None))
        missing = Document.__annotations__.keys() - found.keys()
        if missing:
            raise DataError(f"trace: expected a whole document, got one without {', '.join(sorted(missing))}")
        document: Document = found  # type: ignore[assignment]
        return cls(document, arrays)

    @property
    def calls(self) -> list[CallOf]:
        """The calls of the document, in forward order."""
        return self.document["calls"]

    def __str__(self) -> str:
        """The tree of calls, with the shapes and the largest entries of outputs and upstream gradients."""
        return self.text()

    def text(self, width: int | None = None) -> str:
        """The same for a terminal of this width, 60 or more; None: as wide as it gets."""
        return text_of(self.document, self.arrays, width)


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
    name: the title. tokens: shown labels of the positions, by the name of a sequence, such as "source". lines: also
    record the values after each source line. limit: the most bytes of distinct arrays.

    Raises ConfigError if the trace would be larger than limit, and says how large and what to make smaller; what
    ``npf.gradcheck`` raises for targets and inputs that do not fit.
    """
    most_numbers = sum(int(np.size(parameter.data)) for parameter in _parameters(target))
    if 16 * most_numbers > limit:  # each has a value and a gradient
        what = f"the values and gradients of its {most_numbers:,} parameters alone; make the model smaller"
        raise _too_large(16 * most_numbers, limit, what)
    if ignore_index is None and targets is not None:
        ignore_index = getattr(getattr(target, "config", None), "pad_id", None)
    found = record(
        target, *inputs, targets=targets, ignore_index=ignore_index, label_smoothing=label_smoothing,
        upstream=upstream, names=names, lines=lines, seed=seed, **options,
    )  # fmt: skip
    arrays = Arrays(found.checked.device.host, limit)
    document = document_of(found, arrays, name, tokens)
    if arrays.is_full:
        without = ", or leave out the lines (lines=False, --no-lines)" if lines else ""
        what = f"its {len(found.calls)} calls; make the batch, the sequences or the model smaller{without}"
        raise _too_large(arrays.bytes, limit, what)
    return Trace(document, arrays.found, found)


def _parameters(target: Any) -> list[Any]:
    named = getattr(target, "named_parameters", None)
    return [parameter for _, parameter in named()] if callable(named) else []


def _too_large(size: int, limit: int, what: str) -> ConfigError:
    return ConfigError(
        f"trace: expected at most {limit / 1e6:.3g} MB of numbers, got {size / 1e6:.3g} MB: {what}, or raise the limit "
        "(limit=, --limit)"
    )
