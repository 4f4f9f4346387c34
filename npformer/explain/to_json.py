"""An explanation as a dictionary for JSON."""

from __future__ import annotations

from typing import Any

from npformer.explain.explanation import Explanation, Group, Sums
from npformer.explain.paths import THROUGH

VERSION = 1


def to_dict(found: Explanation) -> dict[str, Any]:
    """Every section, with all products, ways and tokens."""
    paths = found.paths
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
        "paths": {
            "exact": paths.exact,
            "remainder": paths.remainder,
            "sums": [
                {"name": s.name, "through": s.through, "past": s.past, "elsewhere": s.elsewhere} for s in paths.sums
            ],
            "ways": [
                {
                    "choices": [
                        {"at": paths.sums[n].name, "goes": "through" if choice == THROUGH else "past"}
                        for n, choice in way.choices
                    ],
                    "value": way.value,
                }
                for way in paths.ways
            ],
        },
        "tokens": [each._asdict() for each in found.tokens],
        "means": {
            "whole": found.means.whole._asdict(),
            "half": found.means.half._asdict(),
            "falls_fourfold": found.means.holds,
        },
    }


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
