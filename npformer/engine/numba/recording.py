"""Records which kernels a function calls, and with what arguments, so that the calls can be replayed without it.

While a thread records, no kernel runs: each call is put on a ``Tape`` with the addresses of its arrays. The arrays
come from a pool that the tape keeps (``workspace.from_pool``). So an address is valid as long as the tape
lives, and a replay uses memory again just as the recording did.

The tape must hold everything that the function computes. So its arrays are of the class ``Traced``, which sends the
sums and comparisons that layers write in NumPy to kernels, and refuses everything else that would read numbers:
there are none yet. Other uses of new memory are found by recording twice: what lasts from step to step (parameters,
gradients, tables) has the same address both times, what is made anew has two.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numba import types

from npformer.backend.workspace import Pool, address
from npformer.engine.numba.arguments import flat
from npformer.typing import Array, HostArray

POSITION = 2  # the row of ``Kept.now`` that has the position of the newest tokens
ADDRESS_OF_NOTHING = 64  # of arrays without a number, which nobody reads


class NotRecordable(Exception):
    """The function does something that is no call of a kernel; the message says what."""


class _Here(threading.local):
    """The tape that this thread records on."""

    tape: Tape | None = None


here = _Here()


def few_of_step() -> Callable[..., None] | None:
    """The kernel for products of few rows in the step of decoding that this thread records; None outside of one."""
    return None if here.tape is None else here.tape.few


class Traced(np.ndarray[Any, Any]):
    """An array whose numbers do not exist yet."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        kernels = _ufuncs.get(ufunc.__name__) if method == "__call__" else None
        out = options.pop("out", (None,))[0]
        if kernels is None or options or here.tape is None:
            raise NotRecordable(f"NumPy's {ufunc.__name__} is no kernel")
        return kernels(*inputs, out)

    def __array_function__(self, function: Any, kinds: Any, inputs: Any, options: Any) -> Any:
        if function.__name__ not in VIEWS:
            raise NotRecordable(f"NumPy's {function.__name__} is no kernel")
        return super().__array_function__(function, kinds, inputs, options)

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        return part if isinstance(part, Traced) else _refuse(self)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


#: NumPy's functions that look at the same memory in another way. (One that has to copy is found out.)
VIEWS = {"expand_dims", "matrix_transpose", "moveaxis", "permute_dims", "reshape", "squeeze", "swapaxes", "transpose"}
#: Methods of arrays that look at numbers and ask no function of NumPy's that an array can refuse.
LOOKS = (
    *(f"__{name}__" for name in ("bool", "bytes", "complex", "contains", "float", "index", "int", "setitem")),
    "argmax", "argmin", "argpartition", "argsort", "byteswap", "choose", "compress", "copy", "dot", "dump", "dumps",
    "fill", "item", "itemset", "nonzero", "partition", "put", "repeat", "searchsorted", "sort", "take", "tobytes",
    "tofile", "tolist",
)  # fmt: skip


def _refuse(self: Traced, *_: Any, **__: Any) -> Any:
    raise NotRecordable("while a step is recorded its arrays have no numbers, and one is asked for")


for _name in LOOKS:
    setattr(Traced, _name, _refuse)


class Staged(np.ndarray[Any, Any]):
    """An array that is filled before each replay."""


class Kept(np.ndarray[Any, Any]):
    """An array that others, of any sizes, take the place of in replays; ``now`` tells how many of its keys there are.

    A kernel is given all of it.
    """

    number = -1  # among those that are given for a replay
    now: HostArray | None = None

    def __getitem__(self, key: Any) -> Any:
        return self if super().__getitem__(key).shape == self.shape else _refuse_part()


def _refuse_part() -> Any:
    raise NotRecordable("a part of an array is asked for that is another one in a replay")


#: NumPy's function by its name -> what writes down a kernel for it: (inputs…, out or None) -> its result.
_ufuncs: dict[str, Callable[..., Array]] = {}


def stands_for(ufunc: str) -> Callable[[Callable[..., Array]], Callable[..., Array]]:
    """Declare the kernel call that replaces one of NumPy's functions while a thread records."""

    def declare(function: Callable[..., Array]) -> Callable[..., Array]:
        _ufuncs[ufunc] = function
        return function

    return declare


def number(x: Any, kind: Callable[[Any], Any]) -> Any:
    """x as a number for a kernel, an int or a float; while recording, the place where it will be found."""
    return x if type(x) is Traced else kind(x)


def root_of(x: HostArray) -> Any:
    """The array that owns x's memory."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


class Tape:
    """The calls of one function as words (see ``call_program.py``), and the arguments to set before each run."""

    def __init__(self, dtype: str, pool: Pool, few: Callable[..., None] | None) -> None:
        self.dtype, self.pool, self.few = dtype, pool, few  # the kernel of few rows in a step of decoding
        self.calls: list[tuple[Any, list[int]]] = []  # (kernel, its arguments as 64-bit words)
        self.live: list[tuple[int, int, HostArray]] = []  # (call, word) that holds a number of the stage
        self.lasting: list[tuple[Any, int]] = []  # (owner, address) of what was there before
        self.kept: list[tuple[int, int, int]] = []  # (call, word, number) of arrays that are given for a replay
        self._stages: list[Staged] = []

    def call(self, kernel: Any, arguments: Sequence[Any]) -> None:
        """Record a call."""
        words: list[int] = []
        for (kind, is_array), argument in zip(_kinds(kernel, self.dtype), flat(arguments), strict=True):
            if is_array:
                self._add_array(argument, words)
            else:
                self._add_number(kind, argument, words)
        self.calls.append((kernel, words))

    def _add_number(self, kind: Any, x: Any, words: list[int]) -> None:
        if isinstance(x, np.ndarray):
            if x.ndim != 0 or not isinstance(root_of(x), Staged):
                raise NotRecordable("a kernel is given a number that was computed")
            self.live.append((len(self.calls), len(words), np.asarray(x)))
            words.append(0)
        elif kind == types.float64:
            words.append(struct.unpack("<q", struct.pack("<d", x))[0])
        else:
            words.append(int(x))

    def _add_array(self, x: HostArray, words: list[int]) -> None:
        place = ADDRESS_OF_NOTHING
        if isinstance(x, Kept):
            if x.number < 0:
                _refuse_part()
            self.kept.append((len(self.calls), len(words), x.number))
        elif x.size:
            place, root = address(x), root_of(x)
            if isinstance(root, Staged):
                self._stages.append(root)
            elif not self.pool.owns(root):
                self.lasting.append((root, place))
        words += array_words(x, place)


@cache
def _kinds(kernel: Any, dtype: str) -> list[tuple[Any, bool]]:
    """The types of a kernel's arguments, and whether each is an array."""
    return [(kind, isinstance(kind, types.Array)) for kind in flat(kernel.types(dtype))]


def array_words(x: HostArray, place: int) -> tuple[int, ...]:
    """What a kernel is told of an array at this address."""
    return x.size, x.itemsize, place, *x.shape, *x.strides
