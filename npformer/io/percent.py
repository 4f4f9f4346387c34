"""Numbers for readers and for JSON: a share in percent, written in one way everywhere; None for NaN and infinity."""

from __future__ import annotations

import math
from typing import Any

ROUNDING = 1e-9  # a share this close to the whole was computed as the whole


def percent(share: float, digits: int = 1) -> str:
    """A share as text: 0.6667 is "66.7 %".

    It is rounded to the nearest, but less than the whole is never shown as 100 %: 0.9996 is "99.9 %". There is no
    negative 0.
    """
    rounded = f"{100 * share:.{digits}f}"
    if share < 1 - ROUNDING and float(rounded) >= 100:
        rounded = f"{100 - 10**-digits:.{digits}f}"
    return f"{rounded if float(rounded) else rounded.lstrip('-')} %"


def finite(value: Any) -> Any:
    """The value for JSON, which has no NaN and no infinity: None for a float that is one of them."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
