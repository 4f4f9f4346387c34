"""From errors to a verdict, one tensor at a time.

    right           the witnesses agree with the analytic gradient
    WRONG           they agree with each other and not with it
    KINK HERE       the slope to the left and to the right of this point differ: there is no gradient
    CANNOT TELL     no step size settles the numerical slope: too little precision for a verdict
    PROVES NOTHING  the check could not have failed (``vacuity.py``)

Only *right* passes. Where the complex step can be used it decides, and central differences confirm;
where it cannot, each element at which two step sizes disagree, or both with the analytic gradient, is
looked at over a sweep of step sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from npformer.proof.oracles import SAME, Witness
from npformer.proof.report import KINK, RIGHT, UNCLEAR, WRONG, Row
from npformer.proof.subject import Subject
from npformer.proof.sweep import sweep

Host = np.ndarray[Any, Any]

COMPLEX_TOLERANCE = 1e-10
CENTRAL_TOLERANCE = 2 * SAME  # 1e-7
#: So many doubtful places of a tensor are looked at over a sweep; if more are in doubt, the tensor is.
MOST_SWEEPS = 20

#: What a sweep at one place of a tensor says: (verdict, note).
Swept = Callable[[tuple[Any, ...]], tuple[str, str]]


class _Errors(NamedTuple):
    """Scaled errors at every place of a tensor (or for every direction)."""

    error: Host  # against the truth, the better witness
    central: Host  # against central differences
    unclear: Host  # central differences at two step sizes disagree
    apart: Host  # by how much the two witnesses do


class Judge:
    """Judges the tensors of one check; largest is the largest gradient entry of the whole check.

    explain False spares the sweeps: what is not right is then WRONG or CANNOT TELL.
    """

    def __init__(
        self, checked: Subject, upstream: tuple[Host, ...], largest: float, tolerance: float, explain: bool
    ) -> None:
        self._checked = checked
        self._upstream = upstream
        self._largest = largest
        self._complex_tolerance = tolerance
        self._explain = explain
        self._central_tolerance = max(CENTRAL_TOLERANCE, tolerance)

    def row(self, tensor: str, claimed: Host, witness: Witness, directions: list[Host] | None) -> Row:
        """Compare what is claimed with what the witnesses say, and name the worst place.

        directions None: claimed has an entry per element; else one per direction.
        """
        x, truth = self._checked.tensors[tensor], witness.truth
        scale = max(_size(truth), 1e-3 * self._largest) or 1.0
        steps_differ = np.abs(witness.by_central - witness.by_central_wide) / scale
        errors = _Errors(
            error=np.abs(claimed - truth) / scale,
            central=np.abs(claimed - witness.by_central) / scale,
            unclear=~(steps_differ <= self._central_tolerance),
            apart=np.abs(truth - witness.by_central) / scale,
        )

        def swept(place: tuple[Any, ...]) -> tuple[str, str]:
            direction = _unit(x, place) if directions is None else directions[int(place[0])]
            found = sweep(self._checked, tensor, direction, self._upstream)
            verdict = found.verdict(float(claimed[place]), scale, self._central_tolerance)
            return verdict, f"by a sweep of h, which settles to {found.noise / scale:.0e}"

        decide = self._without_complex if witness.by_complex is None else self._with_complex
        worst, verdict, note = decide(errors, swept)
        place = tuple(int(i) for i in worst)
        central = float(np.max(np.where(errors.unclear, 0.0, errors.central), initial=0.0))
        values = (float(errors.error[worst]), central, place, float(claimed[worst]), float(truth[worst]), scale)
        return Row(tensor, x.shape, x.size, *values, verdict, note, by_direction=directions is not None)

    def _with_complex(self, errors: _Errors, swept: Swept) -> tuple[tuple[Any, ...], str, str]:
        """(worst place, verdict, note); NaN counts as an error."""
        worst = _largest(errors.error)
        central = np.where(errors.unclear, 0.0, errors.central)
        complex_agrees = bool(errors.error[worst] <= self._complex_tolerance)
        central_agrees = bool(np.all(central <= self._central_tolerance))
        any_unclear = bool(errors.unclear.any())
        if complex_agrees and central_agrees:
            return worst, RIGHT, "central differences cannot tell here" if any_unclear else ""
        if complex_agrees:  # the witnesses disagree: look where they do
            worst = _largest(central)
        if self._explain and not errors.apart[worst] <= self._central_tolerance:
            verdict, note = swept(worst)  # before anything is called wrong: is there a gradient here?
            if verdict == KINK:
                return worst, verdict, note
        if central_agrees and not any_unclear:
            return worst, WRONG, "central differences agree: does forward drop imaginary parts? then complex_step=False"
        return worst, WRONG, ""

    def _without_complex(self, errors: _Errors, swept: Swept) -> tuple[tuple[Any, ...], str, str]:
        """The same by central differences alone: each place where they leave a doubt is looked at, the worst first."""
        doubtful = errors.unclear | ~(errors.central <= self._central_tolerance)
        places = _by_size(errors.error, doubtful)
        if not places:
            return _largest(errors.error), RIGHT, ""
        if not self._explain:
            clear = _by_size(errors.error, doubtful & ~errors.unclear)
            return (clear[0], WRONG, "") if clear else (places[0], UNCLEAR, "")
        found = []
        for place in places[:MOST_SWEEPS]:
            found.append((place, *swept(place)))
            if found[-1][1] == WRONG:
                break
        worst = min(found, key=lambda place_verdict_note: _GRAVITY.index(place_verdict_note[1]))
        if worst[1] == RIGHT and len(places) > len(found):
            note = f"two step sizes disagree at {len(places)} places, of which {len(found)} were looked at"
            return places[len(found)], UNCLEAR, note
        return worst


_GRAVITY = (WRONG, KINK, UNCLEAR, RIGHT)


def _by_size(error: Host, chosen: Host) -> list[tuple[Any, ...]]:
    """The chosen places, the one with the largest error first; NaN counts as larger than all."""
    places = [tuple(place) for place in np.argwhere(chosen)]
    return sorted(places, key=lambda place: -np.nan_to_num(error[place], nan=np.inf))


def _largest(error: Host) -> tuple[Any, ...]:
    """The index of the largest entry; NaN counts as larger than all."""
    return np.unravel_index(int(np.argmax(np.nan_to_num(error, nan=np.inf))), error.shape)


def _unit(x: Host, index: tuple[Any, ...]) -> Host:
    direction = np.zeros(x.shape)
    direction[index] = 1.0
    return direction


def _size(x: Host) -> float:
    return float(np.max(np.abs(x), initial=0.0))
