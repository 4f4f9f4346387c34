"""Thirty kernels more from somebody who has not seen how the check judges them: other operations, other algorithms."""

from benchmarks.precision import (
    blind_second_below,
    blind_second_right,
    blind_second_right_low,
    blind_second_rounding,
    blind_second_wrong,
)

MODULES = (
    blind_second_right,
    blind_second_right_low,
    blind_second_wrong,
    blind_second_rounding,
    blind_second_below,
)
SECOND = tuple(kernel for module in MODULES for kernel in module.KERNELS)
