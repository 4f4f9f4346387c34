"""What the arguments of kernels are: a kernel annotates each argument with a name of this file, int, float or bool.

An argument may also be a NamedTuple of these. A kernel takes it as it takes its parts, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_type_hints

from numba import types

from npformer.typing import Array

NUMBERS = {int: types.int64, float: types.float64, bool: types.boolean}


@dataclass(frozen=True)
class InMemory:
    """How an array lies in memory. Its numbers are of Numba's type ``number``, None: of the kernel's precision.

    layout is "C", row by row, or "A", any that ``products`` can read. An array that is only read may be read-only, and
    none in a NamedTuple is.
    """

    axes: int
    number: Any = None
    layout: str = "C"
    written: bool = False


Vector = Annotated[Array, InMemory(1)]
OutVector = Annotated[Array, InMemory(1, written=True)]
Rows = Annotated[Array, InMemory(2)]
OutRows = Annotated[Array, InMemory(2, written=True)]
Matrix = Annotated[Array, InMemory(2, layout="A")]  # a factor of a product
OutMatrix = Annotated[Array, InMemory(2, layout="A", written=True)]
Heads = Annotated[Array, InMemory(4, layout="A")]  # (B, H, T, D), factors of products
OutHeads = Annotated[Array, InMemory(4, layout="A", written=True)]
Cache = Annotated[Array, InMemory(4)]
OutCache = Annotated[Array, InMemory(4, written=True)]
Flags = Annotated[Array, InMemory(1, types.boolean)]
OutFlags = Annotated[Array, InMemory(1, types.boolean, written=True)]
Mask = Annotated[Array, InMemory(2, types.boolean)]
OutMask = Annotated[Array, InMemory(2, types.boolean, written=True)]
Whole = Annotated[Array, InMemory(1, types.int64)]
OutWhole = Annotated[Array, InMemory(1, types.int64, written=True)]
WholeRows = Annotated[Array, InMemory(2, types.int64)]
OutWholeRows = Annotated[Array, InMemory(2, types.int64, written=True)]
OutDoubles = Annotated[Array, InMemory(1, types.float64, written=True)]  # in double precision whatever the kernel's is
OutDoubleRows = Annotated[Array, InMemory(2, types.float64, written=True)]


def kinds_of(declared: Any) -> dict[str, Any]:
    """The arguments of a kernel, or the fields of a NamedTuple: name -> what it is."""
    hints = get_type_hints(declared, include_extras=True)
    hints.pop("return", None)
    return {name: getattr(hint, "__metadata__", (hint,))[0] for name, hint in hints.items()}


@cache
def numba_type(kind: Any, precision: Any) -> Any:
    """Numba's type of an argument of this kind, for a precision."""
    if isinstance(kind, InMemory):
        return types.Array(kind.number or precision, kind.axes, kind.layout, readonly=not kind.written)
    if kind in NUMBERS:
        return NUMBERS[kind]
    return types.BaseTuple.from_types([numba_type(each, precision) for each in kinds_of(kind).values()], kind)


def flat(x: Any) -> list[Any]:
    """Values, or Numba's types, with the parts of each NamedTuple in its place."""
    parts = x.types if isinstance(x, types.BaseTuple) else x
    return [leaf for part in parts for leaf in flat(part)] if isinstance(parts, tuple | list) else [x]
