"""An explained operation as data: its lines with their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npformer.explain.expand import Expansion
from npformer.functional import AttentionMask
from npformer.proof.report import Report


@dataclass(frozen=True)
class LineStory:
    """One line as it ran.

    values: the names that it set. entry: one of its numbers as a sum of products, from the numbers before it. formulas:
    of the derivation, those that this line computes. inside: the functions that it called.
    """

    number: int
    code: str
    values: dict[str, Any]
    entry: Expansion | None
    entry_name: str
    formulas: tuple[str, ...]
    inside: tuple[FunctionStory, ...]
    kept: tuple[str, ...] = ()  # the names that it takes out of the cache


@dataclass(frozen=True)
class FunctionStory:
    """One function as it ran."""

    name: str
    file: str
    lines: tuple[LineStory, ...]
    given: tuple[tuple[str, str], ...] = ()  # its arguments, and what the caller has for each, where the names differ


@dataclass(frozen=True)
class OperationStory:
    """All of it; inputs and dy are the sample's."""

    name: str
    title: str
    formula: str
    derivation: str
    source: str
    inputs: dict[str, Any]
    upstream_name: str
    upstream: Any
    forward: FunctionStory
    backward: FunctionStory
    gradients: dict[str, Any]
    report: Report

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "format": "npformer-operation",
            "version": 1,
            "name": self.name,
            "title": self.title,
            "formula": self.formula,
            "derivation": self.derivation,
            "source": self.source,
            "inputs": plain(self.inputs),
            "upstream": plain(self.upstream),
            "forward": _function_dict(self.forward),
            "backward": _function_dict(self.backward),
            "gradients": plain(self.gradients),
            "check": self.report.to_dict(),
        }


def plain(x: Any) -> Any:
    """A value for JSON."""
    if isinstance(x, np.ndarray | np.generic):
        return x.tolist()
    if isinstance(x, tuple | list):
        return [plain(part) for part in x]
    if isinstance(x, dict):
        return {name: plain(part) for name, part in x.items()}
    if isinstance(x, AttentionMask):
        return {"key_visible": plain(x.key_visible), "causal": x.causal, "query_offset": x.query_offset,
                "window": x.window, "stride": x.stride}  # fmt: skip
    return x if isinstance(x, str | int | float | bool) or x is None else str(x)


def _function_dict(story: FunctionStory) -> dict[str, Any]:
    lines = [_line_dict(line) for line in story.lines]
    return {"name": story.name, "file": story.file, "given": dict(story.given), "lines": lines}


def _line_dict(line: LineStory) -> dict[str, Any]:
    entry = None
    if line.entry is not None:
        entry = {
            "name": line.entry_name,
            "products": [
                {"text": term.text, "factors": [f.value for f in term.factors], "value": term.value}
                for term in line.entry.terms
            ],
        }
    return {
        "line": line.number,
        "code": line.code,
        "values": plain(line.values),
        "entry": entry,
        "formulas": list(line.formulas),
        "inside": [_function_dict(inner) for inner in line.inside],
    }
