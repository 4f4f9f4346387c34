"""Floating-point formats: what a kernel stores its numbers in, and what it adds them up in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from npformer.check.inputs import is_float
from npformer.errors import ConfigError
from npformer.typing import HostArray


class Format(NamedTuple):
    """A floating-point format: unit roundoff u, and that of a product's operands; smallest: the least normal number."""

    name: str
    u: float
    smallest: float
    product: float

    @property
    def least(self) -> float:
        """The least number above 0."""
        return 2 * self.u * self.smallest

    def spacing(self, x: HostArray) -> HostArray:
        """The distance of x to the next number."""
        fraction, exponent = np.frexp(np.asarray(x, dtype=np.float64))
        return np.asarray(np.maximum(np.where(fraction == 0, 0.0, np.ldexp(self.u, exponent)), self.least))

    def stored(self, x: HostArray) -> HostArray:
        """What x loses where it is stored: its spacing, or all of a subnormal number of a wide range, as on a GPU."""
        return np.maximum(self.spacing(x), self.smallest if self.smallest < WIDE else 0.0)


#: A format whose least normal number is below this has range enough that nobody scales a loss.
WIDE = 1e-30
FORMATS = {
    one.name: one
    for one in (
        Format("float64", 2.0**-53, 2.0**-1022, 2.0**-53),
        Format("float32", 2.0**-24, 2.0**-126, 2.0**-24),
        Format("tf32", 2.0**-24, 2.0**-126, 2.0**-11),
        Format("float16", 2.0**-11, 2.0**-14, 2.0**-11),
        Format("bfloat16", 2.0**-8, 2.0**-126, 2.0**-8),
    )
}
#: What numbers are stored in: those, and formats that no kernel computes in.
STORED = FORMATS | {
    one.name: one
    for one in (
        Format("float8_e4m3", 2.0**-4, 2.0**-6, 2.0**-4),
        Format("float8_e5m2", 2.0**-3, 2.0**-14, 2.0**-3),
    )
}


def format_of(inputs: Sequence[Any], precision: str | None) -> Format:
    """The format of this name, or the coarsest of the inputs' dtypes. Raises ConfigError if there is none."""
    dtypes = [str(x.dtype).rpartition(".")[2] for x in inputs if is_float(x)]
    coarsest = max((d for d in dtypes if d in FORMATS), key=lambda d: FORMATS[d].u, default=None)
    if precision is None and coarsest is None:
        came = ", ".join(dtypes) or "no float array"
        raise ConfigError(f"precision: expected one of {', '.join(FORMATS)}, or inputs that have it, got {came}")
    return format_named("precision", precision or str(coarsest))


def format_named(option: str, name: str, formats: Mapping[str, Format] = FORMATS) -> Format:
    """The format that an option names. Raises ConfigError for another name."""
    if name not in formats:
        raise ConfigError(f"{option}: expected one of {', '.join(formats)}, got {name}")
    return formats[name]


def sums_in(accumulate: str | None, stored: Format) -> Format:
    """The format in which a kernel adds up: that of the option ``accumulate``, by default float32 or float64."""
    return format_named("accumulate", accumulate or ("float64" if stored.name == "float64" else "float32"))


def rounded_inputs(inputs: Sequence[Any], precision: Format) -> list[Any]:
    """The inputs, NumPy's arrays of floating-point numbers rounded."""
    return [rounded(x, precision) if is_float(x) and isinstance(x, np.ndarray) else x for x in inputs]


def rounded(x: HostArray, precision: Format) -> HostArray:
    """x rounded to the precision, to even, as float64."""
    if precision.name == "bfloat16" or precision.name not in FORMATS:
        spacing = precision.spacing(x)
        return np.asanyarray(np.rint(x.astype(np.float64) / spacing) * spacing)
    dtype = precision.name if precision.name in ("float16", "float64") else "float32"
    return np.asanyarray(x.astype(dtype).astype(np.float64))
