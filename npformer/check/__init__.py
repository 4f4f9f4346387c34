"""Gradient checks against numerical witnesses that are independent of the derivation.

The files in the order in which a user's pair goes through them:

    check                                                the call: its options, and what it refuses
    prepared, checkable, inputs                          what is checked
    one_point, subject                                   the check at one point, and its target
    look                                                 what is asked there: the rest of this list, in this order
    fitness, oracles                                     the witnesses
    behaviour, properties                                what else a backward owes
    verdict, with rounding, sweep, plateaus, regions     the verdict
    report                                               the table

``vacuity`` asks first whether the inputs are fit for a check, and last whether it could have failed. ``walk`` goes over
regimes and sizes, if that is asked for: ``regimes`` changes the inputs.

``causes`` says why a gradient is wrong. ``rounding`` says what rounding explains, in float64 and in fewer digits.
``adapters`` takes users' classes, files and programs, ``invariants`` holds claims beyond gradients, ``kernels`` judges
files of others, ``derivations`` derivations on paper. ``cases`` has npformer's own cases.

npformer's own cases, claims about a whole model, and the tolerance of a test are imported when they are first asked
for: a gradient check needs none of them, no layer and no model, and of other packages NumPy alone.
"""

from typing import TYPE_CHECKING

from npformer.check.adapters.stateful import from_object
from npformer.check.check import gradcheck
from npformer.check.report import Claim, Report, Row, Tried
from npformer.errors import GradientError
from npformer.late import public

if TYPE_CHECKING:
    from npformer.check.adapters.process import from_process
    from npformer.check.cases.case import Case
    from npformer.check.cases.catalogue import catalogue
    from npformer.check.invariants import INVARIANTS, certify
    from npformer.check.rounding.budget import against_float64
    from npformer.check.rounding.tolerance import tolerance
else:

    def __getattr__(name):
        """Import such a name on first use, and keep it."""
        value = globals()[name] = public(__name__, name)
        return value


__all__ = [
    "INVARIANTS",
    "Case",
    "Claim",
    "GradientError",
    "Report",
    "Row",
    "Tried",
    "against_float64",
    "catalogue",
    "certify",
    "from_object",
    "from_process",
    "gradcheck",
    "tolerance",
]
