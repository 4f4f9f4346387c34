"""Which call read which number: the edges of the drawn graph, and the uses whose gradients add up to a gradient.

The gradient of a number is the sum over all its uses. Layers move, add and scale gradients between operations, so where
each entry of a returned gradient arrives is found by runs in which it is marked (``explain/graph.py``). Each list of
uses is checked: only if its sum is the recorded gradient, to 1e-12 of the largest, does the page show it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from npformer.check.inputs import as_tuple
from npformer.see.explain.graph import GradientKey, Marks
from npformer.see.record.recording import Recording
from npformer.typing import HostArray

CLOSE = 1e-12


class Use(NamedTuple):
    """A use of numbers: the call that reads them, which of its gradients is theirs, and of which number each entry is.

    The numbers are told by their flat indices, −1 for none of them.
    """

    call: int
    gradient: int
    where: HostArray


def uses(recording: Recording) -> dict[GradientKey, list[Use]]:
    """The uses that add up to each upstream gradient, and to each gradient that a layer returns."""
    wanted: dict[GradientKey, HostArray] = {}
    totals: dict[GradientKey, HostArray] = {}
    for call, seen in zip(recording.calls, recording.seen, strict=True):
        for way, x in (("upstream", seen.upstream), ("gradients", None if call.operation else seen.gradients)):
            for part, total in enumerate(() if x is None else as_tuple(x)):
                if total is not None:
                    totals[call.number, way, part] = np.asarray(recording.checked.device.host(total)).reshape(-1)
                    wanted[call.number, way, part] = np.arange(np.size(total))
    found: dict[GradientKey, dict[int, HostArray]] = {}
    with recording.ready():
        marks = Marks(recording)
        for key, flats, arrived, _ in marks.between(0, marks.count, wanted):
            which = np.searchsorted(marks.starts, arrived, "right") - 1
            for one in map(int, np.unique(which)):
                nothing = np.full(int(np.prod(marks.returned[one][2])), -1)
                where = found.setdefault(key, {}).setdefault(one, nothing)
                where[arrived[which == one] - marks.starts[one]] = flats[which == one]
    kept = {}
    for key, by_gradient in found.items():
        added, listed = np.zeros(totals[key].size), []
        for one, where in by_gradient.items():
            call, number, _ = marks.returned[one]
            gradient = np.reshape(as_tuple(recording.seen[call.number].gradients)[number], -1)
            np.add.at(added, where[where >= 0], gradient[where >= 0])
            listed.append(Use(call.number, number, where))
        worst = np.max(np.abs(added - totals[key]), initial=0.0)
        if worst <= CLOSE * max(float(np.max(np.abs(totals[key]), initial=0.0)), CLOSE):
            kept[key] = listed
    return kept
