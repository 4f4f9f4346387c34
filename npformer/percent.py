"""Shares in percent, written in one way everywhere."""

from __future__ import annotations


def percent(share: float, digits: int = 1) -> str:
    """A share as text: 0.6667 is "66.7 %".

    It is rounded to the nearest, but less than the whole is never shown as 100 %: 0.9996 is "99.9 %".
    """
    rounded = f"{100 * share:.{digits}f}"
    if share < 1 and float(rounded) >= 100:
        rounded = f"{100 - 10**-digits:.{digits}f}"
    return f"{rounded} %"
