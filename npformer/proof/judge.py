"""From errors to a verdict, one tensor at a time.

    right           the witnesses agree with the analytic gradient
    WRONG           they agree with each other and not with it
    KINK HERE       the slope to the left and to the right of this point differ: there is no gradient
    CANNOT TELL     no step size settles the numerical slope: too little precision for a verdict
    PROVES NOTHING  the check could not have failed (``vacuity.py``)

Only *right* passes. Where the complex step can be used it decides, and central differences confirm;
where it cannot, an element at which two step sizes disagree is looked at over a sweep of step sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npformer.proof.oracles import Witness
from npformer.proof.report import KINK, RIGHT, UNCLEAR, WRONG, Row
from npformer.proof.subject import Subject
from npformer.proof.sweep import sweep

Host = np.ndarray[Any, Any]

COMPLEX_TOLERANCE = 1e-10
CENTRAL_TOLERANCE = 1e-7


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
        error = np.abs(claimed - truth) / scale
        central_error = np.abs(claimed - witness.by_central) / scale
        unclear = ~(np.abs(witness.by_central - witness.by_central_wide) / scale <= self._central_tolerance)
        worst = _largest(error)
        central = float(np.max(np.where(unclear, 0.0, central_error), initial=0.0))
        kink_possible = True
        if witness.by_complex is not None:
            verdict, note = self._with_complex(float(error[worst]), central, bool(unclear.any()))
            if error[worst] <= self._complex_tolerance < central:  # the witnesses disagree: look where they do
                worst = _largest(np.where(unclear, 0.0, central_error))
            apart = abs(float(truth[worst]) - float(witness.by_central[worst])) / scale
            kink_possible = not apart <= self._central_tolerance
        else:
            verdict, note = (RIGHT, "") if central <= self._central_tolerance and not unclear.any() else (UNCLEAR, "")
            worst = _largest(np.where(unclear | ~(central_error <= self._central_tolerance), error, -1.0))
        if (
            verdict != RIGHT and self._explain and kink_possible
        ):  # before anything is called wrong: is there a gradient here, and can it be seen?
            direction = _unit(x, worst) if directions is None else directions[int(worst[0])]
            found = sweep(self._checked, tensor, direction, self._upstream)
            by_sweep = found.verdict(float(claimed[worst]), scale, self._central_tolerance)
            if by_sweep == KINK or verdict == UNCLEAR:
                verdict, note = by_sweep, f"by a sweep of h, which settles to {found.noise / scale:.0e}"
        place = tuple(int(i) for i in worst)
        values = (float(error[worst]), central, place, float(claimed[worst]), float(truth[worst]), scale)
        return Row(tensor, x.shape, x.size, *values, verdict, note, by_direction=directions is not None)

    def _with_complex(self, error: float, central_error: float, any_unclear: bool) -> tuple[str, str]:
        """(verdict, note); NaN counts as an error."""
        complex_agrees = error <= self._complex_tolerance
        central_agrees = central_error <= self._central_tolerance
        if complex_agrees and central_agrees:
            return RIGHT, "central differences cannot tell here" if any_unclear else ""
        if central_agrees and not any_unclear:
            return WRONG, "central differences agree: does forward drop imaginary parts? then complex_step=False"
        return WRONG, ""


def _largest(error: Host) -> tuple[Any, ...]:
    """The index of the largest entry; NaN counts as larger than all."""
    return np.unravel_index(int(np.argmax(np.nan_to_num(error, nan=np.inf))), error.shape)


def _unit(x: Host, index: tuple[Any, ...]) -> Host:
    direction = np.zeros(x.shape)
    direction[index] = 1.0
    return direction


def _size(x: Host) -> float:
    return float(np.max(np.abs(x), initial=0.0))
