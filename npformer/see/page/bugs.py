"""Bugs of the museum in a trace: what each changes, and where the first difference is.

The same target is traced again while a bug's edits are in force (``lab/museum/patch.py``). Kept are the differences,
wrong minus right, of everything that a call received and returned, and the lines of the first call that differs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from npformer.errors import ConfigError
from npformer.io.percent import finite
from npformer.lab.mistake import Mistake
from npformer.lab.museum.bugs import BUGS, bug
from npformer.lab.museum.patch import edited_sources, noted, patched
from npformer.see.page.document import Pack
from npformer.see.record import Trace
from npformer.typing import HostArray

#: Those of one Transformer that show most, in the order of the backward pass; the first ten whose code runs are taken.
USUAL = (
    "loss-by-batch", "linear-bias-first-token", "post-norm-bypassed", "layer-norm-no-mean", "relu-no-gate",
    "softmax-no-shared", "attention-no-scale", "residual-omitted-decoder", "memory-values-only", "residual-omitted",
    "embedding-no-scale", "attention-dq-dk-swapped", "layer-norm-gamma-outside", "layer-norm-no-variance",
    "causal-one-ahead", "positions-base", "gelu-no-density",
)  # fmt: skip
MOST = 10
#: Differences below this, relative to the largest right number of an array, are rounding.
ROUNDING = 1e-12
#: What is compared of a call: what it receives when it begins, then what it makes until it ends.
_WAYS = {"forward": ("inputs", "outputs"), "backward": ("upstream", "gradients", "added")}
#: What counts as zeros where it is missing.
_MADE = ("gradients", "added")
#: Keys whose texts are no names of arrays.
_WORDS = ("text", "type", "names", "function")
_OUTSIDE = ("optimiser", "training", "tests that cannot fail")


#: Call -> "outputs" and so on -> name -> wrong − right.
Differences: TypeAlias = dict[int, dict[str, dict[str, HostArray]]]
#: Call -> pass -> the largest relative difference; ∞ if it did not run.
Sizes: TypeAlias = dict[int, dict[str, float]]


class First(NamedTuple):
    """The first place that differs: a call, in the forward or in the backward."""

    call: int
    way: str  # "forward" or "backward"
    handed: int | None  # the call inside it that received other numbers; None: what it returns itself differs


@dataclass(frozen=True)
class BugTrace:
    """What one bug changes in a trace."""

    bug: Mistake
    differences: Differences
    sizes: Sizes
    first: First
    wrong: Trace

    def to_dict(self, pack: Pack) -> dict[str, Any]:
        """For the page; arrays go into the pack."""
        text = {name: getattr(self.bug, name) for name in ("id", "category", "title", "right", "wrong", "story")}
        first, loss = self.wrong.calls[self.first.call], self.wrong.document["loss"]
        steps = first[self.first.way] or {"lines": [], "function": None}
        changed = [diff for pair in edited_sources(self.bug.edits).values() for diff in _diff(*pair)]
        return text | {
            "calls": {
                str(call): {
                    what: {name: pack.add(array) for name, array in each.items()} for what, each in kinds.items()
                }
                for call, kinds in self.differences.items()
            },
            "sizes": {
                str(call): {way: finite(float(size)) for way, size in ways.items()} for call, ways in self.sizes.items()
            },
            "first": self.first._asdict(),
            "function": steps["function"],
            "lines": _packed(steps["lines"], self.wrong, pack),
            "sources": self.wrong.document["sources"] if steps["lines"] else {},
            "changed": changed,
            "loss": finite(loss) if isinstance(loss, float) else None,  # in a trace no infinite one is a number
        }


def bug_traces(record: Callable[[], Trace], right: Trace, names: Sequence[str] | None = None) -> list[BugTrace]:
    """Trace again with each bug: of these names, or the usual ten at most whose code the trace runs.

    record makes the trace anew. Raises ConfigError for a name of no bug, and for a bug whose code the trace
    does not run or which changes nothing in it.
    """
    chosen = [bug(name) for name in (USUAL if names is None else names)]
    if not chosen:
        return []
    with noted({target for each in BUGS for target in each.targets}) as ran:
        record()
        reached = [each.id for each in BUGS if each.targets & ran and each.category not in _OUTSIDE]
    traces: list[BugTrace] = []
    for each in chosen:
        if names is None and (each.id not in reached or len(traces) == MOST):
            continue
        if each.id not in reached:
            raise ConfigError(
                f"bugs: expected bugs whose code this trace runs, got {each.id}; these it runs: {', '.join(reached)}"
            )
        one = with_bug(record, right, each)
        if one is not None:
            traces.append(one)
        elif names is not None:
            raise ConfigError(f"bugs: expected bugs that change a number of this trace, got {each.id}; leave it out")
    return traces


def with_bug(record: Callable[[], Trace], right: Trace, one: Mistake) -> BugTrace | None:
    """The differences that a bug makes; None if there are none, or if the trace cannot be made with it."""
    try:
        with patched(one.edits), np.errstate(all="ignore"):
            wrong = replace(record(), recording=None)  # its live calls are not needed
    except Exception:  # a bug may raise anything: there is no second trace to show
        return None
    differences: Differences = {}
    sizes: Sizes = {}
    pairs = list(_alike(right, wrong))
    for ours, theirs in pairs:
        number = ours["id"]
        for way, kinds in _WAYS.items():
            if ours[way] is not None and theirs[way] is None:
                sizes.setdefault(number, {})[way] = np.inf
            for kind in kinds if None not in (ours[way], theirs[way]) else ():
                for name, (array, size) in _differing(ours, theirs, kind, right, wrong).items():
                    differences.setdefault(number, {}).setdefault(kind, {})[name] = array
                    ways = sizes.setdefault(number, {})  # what it receives is not its own doing
                    ways[way] = float(
                        np.maximum(ways.get(way, 0.0), size if kind != kinds[0] else 0.0)
                    )  # NaN, if one is
    first = _first(right.calls, len(pairs), differences, sizes)
    return None if first is None else BugTrace(one, differences, sizes, first, wrong)


def _alike(right: Trace, wrong: Trace) -> Iterator[tuple[Any, Any]]:
    """The calls of both traces, as long as they are the same calls."""
    for ours, theirs in zip(right.calls, wrong.calls, strict=False):
        if any(ours[key] != theirs[key] for key in ("name", "type", "parent")):
            return
        yield ours, theirs


def _differing(ours: Any, theirs: Any, kind: str, right: Trace, wrong: Trace) -> dict[str, tuple[HostArray, float]]:
    """Name -> (wrong − right, its relative size), for the arrays that differ."""
    mine, others = _arrays(right, ours, kind), _arrays(wrong, theirs, kind)
    by_name = {}
    for name in mine | others:
        a, b = (x.get(name) for x in (mine, others))
        if kind in _MADE:  # a gradient that is not made counts as zeros
            a, b = (np.zeros_like(y) if x is None and y is not None else x for x, y in ((a, b), (b, a)))
        if a is None or b is None or a.shape != b.shape:
            continue
        difference = np.asarray(b - a, dtype=np.float64)
        largest = float(np.max(np.abs(a), initial=0.0)) or 1.0
        size = float(np.max(np.abs(difference), initial=0.0)) / largest
        if not size <= ROUNDING:
            by_name[name] = (difference, size)
    return by_name


def _arrays(trace: Trace, call: Any, kind: str) -> dict[str, HostArray]:
    """Name -> array of float64, of one kind of a call. An operation's gradients say already what it added."""
    if kind == "added":
        named = {each["parameter"]: each["array"] for each in call[kind] if call["kind"] == "layer"}
    else:
        named = {each["name"]: each["value"] for each in call[kind]}
    arrays = {name: trace.arrays.get(value) for name, value in named.items() if isinstance(value, str)}
    return {name: x for name, x in arrays.items() if x is not None and x.dtype == np.float64}


def _first(calls: Any, alike: int, differences: Differences, sizes: Sizes) -> First | None:
    """The first event with a difference. What a call receives was made wrong by the call around it."""
    events: list[tuple[int, First]] = []
    for number, ways in sizes.items():
        call, by_kind = calls[number], differences.get(number, {})
        around = number if call["parent"] is None else call["parent"]
        for way, kinds in _WAYS.items():
            made = any(kind in by_kind for kind in kinds[1:])
            if kinds[0] in by_kind or (way in ways and not made):  # that it did not run is not its own doing, either
                events.append((call[way]["start"], First(around, way, number)))
            if made:
                events.append((call[way]["end"], First(number, way, None)))
    if alike < len(calls):  # from here on other calls were made
        missing = calls[alike]
        events.append((missing["forward"]["start"], First(missing["parent"] or 0, "forward", missing["id"])))
    return min(events, key=lambda event: event[0])[1] if events else None


def _diff(before: str, after: str) -> list[list[str]]:
    """The changed lines with two around them: [" " | "-" | "+", text]."""
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]
    return [[line[:1], line[1:]] for line in lines if not line.startswith("@@")]


def _packed(lines: Any, trace: Trace, pack: Pack) -> Any:
    """Lines with the names of their arrays in the pack."""
    if isinstance(lines, str) and lines in trace.arrays:
        return pack.add(trace.arrays[lines])
    if isinstance(lines, list):
        return [_packed(each, trace, pack) for each in lines]
    if isinstance(lines, dict):
        return {key: each if key in _WORDS else _packed(each, trace, pack) for key, each in lines.items()}
    return lines
