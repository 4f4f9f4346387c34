"""Sixty kernels in low precision, in two lists, by people who have not seen how the check judges them."""

from benchmarks.precision import blind_below, blind_right, blind_wrong, blind_wrong_loops
from benchmarks.precision.blind_second import SECOND

FIRST = (*blind_right.KERNELS, *blind_wrong.KERNELS, *blind_wrong_loops.KERNELS, *blind_below.KERNELS)
BLIND = FIRST + SECOND

#: The functions of tensors behind the kernels that PyTorch differentiates, without their casts.
BODIES = {**blind_right.BODIES, **blind_wrong.BODIES, **blind_below.BODIES}
