"""The arrays of a model by name, whether other arrays fit it, and whether another model computes the same.

A structure tells whether a model computes what another of the same configuration does: in classes, settings, methods,
operations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from npformer.backend import Backend
from npformer.backend.arena import expect_unique
from npformer.errors import CheckpointError, ConfigError
from npformer.layers import Layer
from npformer.layers.owner import Owner, patched_methods
from npformer.layers.parameter import Buffer, Parameter, ParameterView
from npformer.models import Model
from npformer.models.config import ModelConfig
from npformer.models.shapes import Limit, model_of_shapes
from npformer.optim import Adam
from npformer.run.checkpoint import Checkpoint
from npformer.run.config_file import shown
from npformer.typing import HostArrays, Tensors

#: Compared elsewhere, or without effect on what is computed.
_ELSEWHERE = {"arena", "backend", "classes", "config", "tokenizer", "_version", "_seen"}


def structure_differences(path: str, wanted: Any, there: Any) -> Iterator[str]:
    """How what is there at path differs from what is wanted: each place, what is expected there, and what is found.

    A part of a subclass is the same if the subclass redefines nothing. Further attributes of a part count only where
    its class has them, too.
    """
    if isinstance(wanted, Owner) and isinstance(there, Owner):
        if odd := _other_class(type(wanted), type(there)):
            yield f"{path or 'the model'}: expected {type(wanted).__name__}, got {odd}"
        elif not isinstance(wanted, Parameter | ParameterView | Buffer):
            yield from _part_differences(f"{path}." if path else "", wanted, there)
    elif isinstance(wanted, list | tuple) and isinstance(there, list | tuple) and len(wanted) == len(there):
        for i, pair in enumerate(zip(wanted, there, strict=True)):
            yield from structure_differences(f"{path}.{i}", *pair)
    elif (wanted == (there.item() if isinstance(there, np.generic) else there)) is not True:
        yield f"{path}: expected {_named(wanted)}, got {_named(there)}"


def _other_class(wanted: type, there: type) -> str:
    """What there computes otherwise than wanted, its base or itself; "" if it is the same."""
    if not issubclass(there, wanted):
        return there.__name__ + (f" of {there.__module__}" if there.__name__ == wanted.__name__ else "")
    redefined = [name for kind in there.__mro__[: there.__mro__.index(wanted)] for name in vars(kind)]
    for name in (*redefined, *patched_methods(wanted)):
        if name != "static" and hasattr(wanted, name) and (name == "__call__" or not name.startswith(("__", "_abc_"))):
            return f"{there.__name__} with {name} of its own"
    return ""


def _part_differences(before: str, wanted: Owner, there: Owner) -> Iterator[str]:
    """How a part differs from one of the same class: methods set on it, settings, the parts inside, operations."""
    kind, backend = type(wanted), getattr(there, "backend", None)
    for name in dict.fromkeys([*vars(wanted), *(name for name in vars(there) if hasattr(kind, name))]):
        if callable(getattr(kind, name, None)):
            yield f"{before}{name}: expected the method of {kind.__name__}, got another that was set on this part"
        elif name not in _ELSEWHERE:
            yield from structure_differences(before + name, getattr(wanted, name), getattr(there, name, NotImplemented))
    if isinstance(backend, Backend) and not backend.has_own_ops:
        replaced = [name for name, pair in vars(backend.ops).items() if pair is not getattr(backend.own_ops, name)]
        yield from (f"{before}backend.ops.{name}: expected npformer's operation, got another" for name in replaced)


def _named(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{len(value)} parts"
    return "nothing" if value is NotImplemented else type(value).__name__ if isinstance(value, Owner) else shown(value)


MISFIT = "does not fit the model"

#: Name -> shape and dtype of each array.
Table: TypeAlias = Mapping[str, tuple[tuple[int, ...], str]]


def model_arrays(model: Layer) -> HostArrays:
    """Name -> host array, of every parameter and buffer (views where the model lives on the host)."""
    return {name: model.backend.host(array) for name, array in arrays_in(model).items()}


def arrays_in(model: Layer) -> dict[str, Any]:
    """Name -> device array, of every parameter and buffer: the model's state, without its configuration."""
    named: list[tuple[str, Any]] = [*model.named_parameters(), *model.named_buffers()]
    expect_unique(name for name, _ in named)
    return {name: array.data for name, array in named}


def model_arrays_of(checkpoint: Checkpoint) -> HostArrays:
    """Name -> parameter or buffer, of the arrays in a run's checkpoint."""
    parts = [(name.partition("."), array) for name, array in checkpoint.arrays.items()]
    return {name: array for (kind, _, name), array in parts if kind in ("parameters", "buffers")}


def saved_arrays(model: Layer, optimizer: Adam) -> dict[str, Any]:
    """Name -> device array, of parameters, moments and running statistics, as a run's checkpoint names them."""
    parameters = {f"parameters.{name}": p.data for name, p in model.named_parameters()}
    moments = {f"moments.{name}": moment for name, moment in optimizer.moments().items()}
    buffers = {f"buffers.{name}": buffer.data for name, buffer in model.named_buffers()}
    return parameters | moments | buffers


def set_arrays(model: Layer, arrays: Tensors, source: str) -> None:
    """Copy arrays into the parameters and buffers of the same names.

    Raises CheckpointError, and changes nothing, unless names and shapes are exactly the model's.
    """
    copy_arrays(arrays_in(model), arrays, model.backend, source)


def copy_arrays(targets: Mapping[str, Any], arrays: Tensors, backend: Backend, source: str) -> None:
    """Copy arrays into targets by name; all or nothing, as in ``set_arrays``."""
    _expect_none(_differences(table_of(targets), table_of(arrays)), source)
    for name, target in targets.items():
        target[...] = backend.array(arrays[name])


def table_of(arrays: Mapping[str, Any]) -> Table:
    """Name -> shape and dtype of each array."""
    return {name: (tuple(array.shape), str(array.dtype)) for name, array in arrays.items()}


def misfits(config: ModelConfig, dtype: str, table: Table, model: Model | None = None) -> str:
    """How the found arrays, and the parts of model, differ from those that config describes, in dtype; "" if they fit.

    No model is built for this. The comparison stops early if the configuration needs far more arrays than were found.
    """
    numbers = sum(math.prod(shape) for shape, _ in table.values())
    try:
        expected = model_of_shapes(config, Limit(2 * len(table) + 100, 2 * numbers + 1_000_000))
    except ConfigError as error:
        return str(error)
    arrays = _differences({name: (array.shape, dtype) for name, array in arrays_in(expected).items()}, table)
    return arrays or ("" if model is None else first_five([*structure_differences("", expected, model)]))


def expect_arrays(config: ModelConfig, dtype: str, table: Table, source: str) -> None:
    """Raise CheckpointError unless the found arrays fit the model that config describes; see ``misfits``."""
    _expect_none(misfits(config, dtype, table), source)


def expect_finite_weights(arrays: Tensors, source: str, remedy: str) -> None:
    """Raise CheckpointError, naming the first array, if a number in arrays is not finite."""
    for name, array in arrays.items():
        finite = np.isfinite(array)
        if not finite.all():
            problem = f"{array[~finite][0]} in {name}"
            raise CheckpointError(f"{source}: expected finite weights, got {problem}: the model has diverged; {remedy}")


def _differences(expected: Table, got: Table) -> str:
    """The first five arrays that are missing, unknown or of another shape or dtype; "" if there are none."""
    problems = [f"{name} is missing" for name in expected if name not in got]
    problems += [f"{shown(name)[1:-1]} is not part of the model" for name in got if name not in expected]
    problems += [
        f"{name}: expected {shape} {dtype}, got {got[name][0]} {got[name][1]}"
        for name, (shape, dtype) in expected.items()
        if name in got and got[name] != (shape, dtype)
    ]
    return first_five(problems)


def first_five(problems: Sequence[str]) -> str:
    """The first five, and how many more there are."""
    return "; ".join(problems[:5]) + (f"; and {len(problems) - 5} more" if len(problems) > 5 else "")


def _expect_none(problems: str, source: str) -> None:
    if problems:
        raise CheckpointError(f"{source}: {MISFIT}: {problems}; is it of another configuration or dtype?")
