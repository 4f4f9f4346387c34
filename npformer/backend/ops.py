"""The table of operations: which kernel runs for each pair.

``PLAIN`` has the pair of ``functional`` for each name in ``functional.OPERATIONS``. A backend replaces kernels, always
a forward together with its backward, so a cache is read only by the pair that made it. Its kernels are found by their
names (``with_kernels``): ``layer_norm_forward`` in any module of its folder. Use ``dataclasses.replace(ops,
layer_norm=Pair(forward, backward))`` for a kernel of your own. Code above the backend does not change when a kernel
does.

An operation without a kernel in a folder keeps the pair of the table below: numba's is NumPy's. A model computes
some operations only inside another one, whose kernel then makes both fast:

    softmax   in attention and cross-entropy: files attention* and cross_entropy* of numpy, numba and cuda
    ReLU      in feed-forward: files feed_forward* of the same folders
    GELU      likewise, with numpy/gelu.py; alone it is feed_forward.cu on a GPU
    dropout   its scale is applied in the files dropout*, layer_norm*, feed_forward* and attention* of each folder
              (CUDA: philox.cuh), and computed by functional/dropout.py alone
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, make_dataclass
from difflib import get_close_matches
from functools import cache, partial, wraps
from importlib import import_module
from inspect import isfunction, signature
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from npformer.functional import OPERATIONS
from npformer.functional.arrays import expect_shape
from npformer.functional.philox import Bits
from npformer.typing import Array

Forward = Callable[..., tuple[Any, Any]]
Backward = Callable[..., Any]


class Pair(NamedTuple):
    """One operation as the layers call it.

    ``forward(*inputs) -> (y, cache)``.
    ``backward(dy, cache, into=())`` adds the gradients of the last ``len(into)`` inputs, the
    parameters, to the arrays in ``into`` (None: frozen, skipped) and returns the gradients of the
    other inputs: one array, or a tuple of several arrays, or None if there are no other inputs.
    """

    forward: Forward
    backward: Backward


def plain_pair(forward: Forward, backward: Callable[[Any, Any], tuple[Array, ...]]) -> Pair:
    """A Pair from a pure forward and a pure backward that returns all gradients as a tuple."""

    @wraps(backward)
    def backward_into(dy: Any, cache: Any, into: Sequence[Array | None] = ()) -> Any:
        return accumulate(backward(dy, cache), into)

    return Pair(forward, backward_into)


def accumulate(gradients: tuple[Array, ...], into: Sequence[Array | None]) -> Any:
    """The end of a Pair's backward: add the parameters' gradients to into, return the others' as Pair promises."""
    rest = add_into(gradients, into)
    return rest[0] if len(rest) == 1 else (rest or None)


def add_into(gradients: Sequence[Any], into: Sequence[Array | None]) -> tuple[Array, ...]:
    """Add the last len(into) gradients to its arrays (None: skipped); returns the others."""
    first_parameter = len(gradients) - len(into)
    added = [pair for pair in zip(into, gradients[first_parameter:], strict=True) if pair[0] is not None]
    for total, gradient in added:
        expect_shape("into", total, "the shape of the parameter", *gradient.shape)
    for total, gradient in added:
        total += gradient  # in place: total is a view of the parameter's gradient
    return tuple(gradients[:first_parameter])


class _Table:
    """A table's text, and its error for a name that is not in it."""

    def __str__(self) -> str:
        """A line for each operation: the module that its kernel comes from."""
        return "\n".join(f"{name:<22} {_home(getattr(self, name).forward)}" for name in OPERATIONS)

    def __repr__(self) -> str:
        return f"<Ops: {len(OPERATIONS)} operations; print shows where their kernels come from>"

    def __getattr__(self, name: str) -> Pair:
        near = get_close_matches(name, OPERATIONS, 1) or list(OPERATIONS)
        raise AttributeError(f"{name}: expected the name of an operation, such as {near[0]}")


def _home(function: Any) -> str:
    """The module of a function within wrappers and partial applications."""
    inner = getattr(function, "__wrapped__", getattr(function, "func", None))
    return str(function.__module__) if inner is None else _home(inner)


if TYPE_CHECKING:

    class Ops(_Table):  # for type checkers: a dataclass whose fields they need not know
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

        def __init__(self, **pairs: Pair) -> None: ...

else:
    Ops = make_dataclass("Ops", [(name, Pair) for name in OPERATIONS], bases=(_Table,), frozen=True, repr=False)
    Ops.__module__ = __name__
    Ops.__doc__ = "One Pair for each operation of ``functional``, in its teaching order: ``ops.linear.forward(…)``."

PLAIN = Ops(**{name: plain_pair(row.forward, row.backward) for name, row in OPERATIONS.items()})

#: The operations that draw dropout masks.
DRAWING = tuple(name for name, row in OPERATIONS.items() if row.draws)


def with_bits(ops: Ops, bits: Bits) -> Ops:
    """The same operations with dropout bits drawn by ``bits``, a faster version of philox_bits."""
    pairs = {name: getattr(ops, name) for name in DRAWING}
    return Ops(**vars(ops) | {name: Pair(partial(p.forward, bits=bits), p.backward) for name, p in pairs.items()})


def with_kernels(ops: Ops, folder: str, *first: Any) -> Ops:
    """ops with the kernels of a folder, given as a package's name. ``first`` are the first arguments of each kernel.

    A kernel is found by its name: ``linear_forward`` and ``linear_backward``, in any module of the folder, replace
    the pair of linear. There must be both or neither, since a backward reads only the cache of its own forward. A
    backward without the argument ``into`` returns all gradients, as in ``functional``.
    """
    kernels = {}
    for op, pair in kernels_in(folder).items():
        forward, backward = (partial(each, *first) for each in pair) if first else pair
        adds = "into" in signature(pair.backward).parameters
        kernels[op] = Pair(forward, backward) if adds else plain_pair(forward, backward)
    return Ops(**vars(ops) | kernels)


@cache
def kernels_in(folder: str) -> dict[str, Pair]:
    """The pairs of functions in a package that have the names of operations.

    Raises TypeError for a name like theirs of no operation, for half a pair, and for a name that occurs twice.
    """
    functions: dict[str, dict[str, Any]] = {}
    for info in iter_modules(import_module(folder).__path__):
        module = import_module(f"{folder}.{info.name}")
        for name, function in vars(module).items():
            op, _, way = name.rpartition("_")
            defined_here = isfunction(function) and function.__module__ == module.__name__ and name == function.__name__
            if defined_here and way in Pair._fields and not name.startswith("_"):
                if op not in OPERATIONS or way in functions.setdefault(op, {}):
                    raise TypeError(f"{module.__name__}.{name}: expected the name of one operation's kernel, once")
                functions[op][way] = function
    for op, ways in functions.items():
        if len(ways) != len(Pair._fields):
            raise TypeError(f"{folder}: expected {op}_forward and {op}_backward, got {op}_{'_'.join(ways)} alone")
    return {op: Pair(**ways) for op, ways in functions.items()}
