"""A check that every task uses: an option is a whole number within its bounds."""

from __future__ import annotations

from operator import index

from npformer.errors import ConfigError


def batch_arguments(step: object, batch_size: object) -> tuple[int, int]:
    """The arguments of a task's ``batch`` as ints. Raises ConfigError unless both are whole numbers >= 1."""
    return whole_number("step", step, at_least=1), whole_number("batch_size", batch_size, at_least=1)


def whole_number(name: str, value: object, *, at_least: int, at_most: int | None = None) -> int:
    """Return `value` as an int, or raise ConfigError with the option, its bounds and the value."""
    bounds = f">= {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    try:
        if isinstance(value, bool):  # True would pass for 1, and is a sign of mixed-up arguments
            raise TypeError
        number = index(value)  # type: ignore[arg-type]  # what is no integer raises TypeError
    except TypeError:
        raise ConfigError(f"{name}: expected a whole number {bounds}, got {value!r}") from None
    if number < at_least or (at_most is not None and number > at_most):
        raise ConfigError(f"{name}: expected a whole number {bounds}, got {number}")
    return number
