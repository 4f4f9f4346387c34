"""An explanation as a dictionary for JSON."""

from __future__ import annotations

from typing import Any

from npformer.explain.explanation import Explanation, Group, Sums
from npformer.explain.paths import THROUGH, Paths, Way

VERSION = 1


def to_dict(found: Explanation) -> dict[str, Any]:
    """Every section, with all products, ways and tokens."""
    whole, half, holds = found.means
    return {
        "format": "npformer-explanation",
        "version": VERSION,
        "name": found.name,
        "at": found.place,
        "loss": found.loss,
        "value": found.value._asdict(),
        "what": found.what,
        "terms": _sums(found.terms),
        "why": None if found.why is None else _sums(found.why),
        "up": [_sums(step) for step in found.walk],
        "paths": _paths(found.paths),
        "tokens": [each._asdict() for each in found.tokens],
        "means": {"whole": whole._asdict(), "half": half._asdict(), "falls_fourfold": holds},
    }


def _paths(paths: Paths) -> dict[str, Any]:
    sums = [{"name": s.name, "through": s.through, "past": s.past, "elsewhere": s.elsewhere} for s in paths.sums]
    return {
        "exact": paths.exact,
        "remainder": paths.remainder,
        "sums": sums,
        "ways": [{"choices": _choices(paths, way), "value": way.value} for way in paths.ways],
    }


def _choices(paths: Paths, way: Way) -> list[dict[str, str]]:
    return [
        {"at": paths.sums[number].name, "goes": "through" if choice == THROUGH else "past"}
        for number, choice in way.choices
    ]


def _sums(sums: Sums) -> dict[str, Any]:
    return {
        "name": sums.name,
        "value": sums.value,
        "groups": [_group(group) for group in sums.groups],
        "begins": sums.begins,
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "call": group.call,
        "operation": group.operation,
        "line": None if group.line is None else group.line._asdict(),
        "products": [each._asdict() for each in group.products],
        "value": group.value,
    }
