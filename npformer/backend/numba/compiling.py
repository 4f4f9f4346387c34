"""How kernels are compiled: once per precision, kept on disk, and never in silence.

A kernel is a Python function of arrays that Numba turns into machine code. It is declared with its
argument types, so that read-only and writable arrays, or Python and NumPy numbers, never lead to a
second compilation in the middle of training. Kernels run without Python's lock and on one thread:
threads are the training step's affair.

A loop that sums writes to no other array than it reads. Of a loop that reads one and writes another LLVM makes two
forms, and takes the one without vectors where the arrays lie less than a few vectors apart, as small ones may by
chance: then a sum is taken in another order, and the same training run ends with other last bits
(``tests/backend/numba/test_where_arrays_lie.py``).
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numba
from numba import types

from npformer.backend.numba.recording import here

#: Sums may be reordered, so that they use whole vectors, and a·b + c may be one instruction; the rules
#: for NaN and infinity stay as they are.
FASTMATH = {"reassoc", "contract", "nsz"}

#: Letters of a kernel's signature: what each argument is, for a precision T.
LETTERS: dict[str, Callable[[Any], Any]] = {
    "x": lambda T: types.Array(T, 1, "C", readonly=True),  # read, one axis
    "X": lambda T: types.Array(T, 2, "C", readonly=True),  # read, two axes
    "y": lambda T: types.Array(T, 1, "C"),  # written, one axis
    "Y": lambda T: types.Array(T, 2, "C"),  # written, two axes
    "m": lambda T: types.Array(T, 2, "A", readonly=True),  # a matrix for products, read
    "M": lambda T: types.Array(T, 2, "A"),  # a matrix for products, written
    "h": lambda T: types.Array(T, 4, "A", readonly=True),  # heads for products, read
    "H": lambda T: types.Array(T, 4, "A"),  # heads for products, written
    "b": lambda T: types.Array(types.boolean, 1, "C", readonly=True),
    "B": lambda T: types.Array(types.boolean, 2, "C", readonly=True),
    "C": lambda T: types.Array(types.boolean, 2, "C"),  # written
    "k": lambda T: types.Array(types.int64, 1, "C", readonly=True),
    "K": lambda T: types.Array(types.int64, 2, "C", readonly=True),
    "s": lambda T: types.Array(types.int64, 1, "C"),  # written, whole numbers
    "W": lambda T: types.Array(types.int64, 2, "C"),
    "c": lambda T: types.Array(types.boolean, 1, "C"),  # written, truth values
    "Z": lambda T: types.Array(T, 3, "C"),  # written, three axes
    "d": lambda T: types.Array(types.float64, 1, "C"),  # written, in double precision whatever T is
    "D": lambda T: types.Array(types.float64, 2, "C"),
    "i": lambda T: types.int64,
    "f": lambda T: types.float64,
    "?": lambda T: types.boolean,
}

#: Files with what kernels in other files are made of. Numba asks a kernel's own file alone whether it has changed.
PARTS = ("beam_choice.py", "compiling.py", "decode_beams.py", "decode_parts.py", "error_function.py",
         "exponential.py", "few_tokens.py", "linear.py", "maximum.py", "philox.py", "products.py", "sharing.py",
         "../../functional/erf.py", "../../functional/philox.py")  # fmt: skip

Part = Any  # a Numba dispatcher; compiled code calls it like the function it was made of


class Kernel:
    """A compiled function of arrays and numbers, which Python calls; signature has one of LETTERS for each."""

    def __init__(self, dispatcher: Part, signature: str) -> None:
        self.dispatcher, self.signature = dispatcher, signature
        self.__name__, self.__doc__ = dispatcher.__name__, dispatcher.__doc__

    def __call__(self, *arguments: Any) -> None:
        tape = here.tape
        if tape is None:
            self.dispatcher(*arguments)
        else:
            tape.call(self, arguments)

    def types(self, dtype: str) -> tuple[Any, ...]:
        """Numba's types of the arguments for this precision."""
        return tuple(LETTERS[letter](getattr(types, dtype)) for letter in self.signature)


_kernels: list[Kernel] = []
_ready: set[str] = set()


def inlined(function: Callable[..., Any]) -> Part:
    """A part that kernels are made of; compiled with them."""
    return numba.njit(nogil=True, fastmath=FASTMATH, error_model="numpy")(function)


def exact(function: Callable[..., Any]) -> Part:
    """A part whose operations stay in the order in which they are written; a·b + c may be one instruction.

    Left unsaid, Numba would let it inherit the freedom of whoever calls it first.
    """
    return numba.njit(nogil=True, fastmath={"contract"}, error_model="numpy")(function)


def kernel(signature: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel that returns nothing; signature has one of LETTERS for each argument."""

    def declare(function: Callable[..., Any]) -> Kernel:
        options: dict[str, Any] = {"nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}
        try:
            dispatcher = numba.njit(cache=True, **options)(function)
        except RuntimeError:  # nowhere to keep it: neither this folder nor the user's cache can be written
            dispatcher = numba.njit(**options)(function)
        else:
            stored = dispatcher._cache._cache_file
            stored._source_stamp = (stored._source_stamp, _parts())
        _kernels.append(Kernel(dispatcher, signature))
        return _kernels[-1]

    return declare


@cache
def _parts() -> str:
    """A number that is another one if PARTS are."""
    found = hashlib.sha256()
    for name in PARTS:
        found.update(Path(__file__).parent.joinpath(name).read_bytes())
    return found.hexdigest()


def _compile(dispatcher: Part, signature: Any) -> None:
    """Compile a kernel or load it; a full disk, or a file that a power cut left empty, costs time, no more."""
    dispatcher.disable_compile(False)
    stored = dispatcher._cache
    for first in (stored.enable, stored.flush, stored.disable):
        with suppress(OSError, EOFError, UnpicklingError):
            first()
            dispatcher.compile(signature)
            break
    dispatcher.disable_compile()  # or a writable array where one is only read would have a kernel of its own


def takes(letter: str) -> bool:
    """Whether kernels are there for arrays of this dtype; compiles them, if they can be."""
    dtype = {"f": "float32", "d": "float64"}.get(letter)
    if dtype is not None:
        prepare(dtype)
    return dtype is not None


def prepare(dtype: str) -> None:
    """Compile every kernel for dtype, or load it from disk; says so if it takes time."""
    if dtype in _ready:
        return
    begin, announced = time.perf_counter(), False
    for each in _kernels:
        _compile(each.dispatcher, types.void(*each.types(dtype)))
        if not announced and sum(each.dispatcher.stats.cache_hits.values()) == 0:
            announced = True
            print(f"npformer: compiling {len(_kernels)} kernels for {dtype}, once ...", file=sys.stderr, flush=True)
    if announced:
        print(f"npformer: compiled in {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    _ready.add(dtype)
