"""Declares kernels and compiles them: once per precision, stored on disk, with a message while it takes time.

A kernel is a Python function of arrays that Numba turns into machine code. It is declared with its
argument types, so that read-only and writable arrays, or Python and NumPy numbers, never lead to a
second compilation in the middle of training. A kernel releases Python's lock and runs on one thread; the training
step decides how many threads call kernels.

Declaring a kernel compiles nothing. Before the first batch a training step compiles all kernels that its model calls
(``compile_ahead``), and so does a decoder. Any other kernel is compiled by its first call.

A loop that adds numbers up must not write to one array while it reads another. LLVM compiles such a loop twice, with
and without vectors, and runs the one without if the two arrays lie less than a few vectors apart. Small arrays may lie
so by chance. The sum is then taken in another order, and the same training run ends with other last bits
(``tests/engine/numba/test_where_arrays_lie.py``).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core.compiler_lock import global_compiler_lock

from npformer.engine.numba.kernel_files import KernelFiles
from npformer.engine.numba.parallel_compile import compile_several
from npformer.engine.numba.recording import here

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

OF_PRECISION = "xXyYmMhHZ"  # letters of arrays whose numbers are of precision T

#: Files with what kernels in other files are made of: where one has changed, all kernels are compiled anew.
PARTS = ("beam_choice.py", "compiling.py", "decode_parts.py", "exponential.py", "linear.py", "maximum.py", "philox.py",
         "products.py", "work_sharing.py", "../../functional/erf.py", "../../functional/philox.py")  # fmt: skip

_parts = tuple(Path(__file__).parent / name for name in PARTS)
Part = Any  # a Numba dispatcher; compiled code calls it like the function it was made of
DTYPES = ("float32", "float64")


class Kernel:
    """A compiled function that Python calls. signature has one of LETTERS for each argument.

    calls names its callers: a direction of an operation ("linear.forward"), or a user outside the table ("adam").
    """

    def __init__(self, dispatcher: Part, signature: str, calls: str = "") -> None:
        self.dispatcher, self.signature, self.calls = dispatcher, signature, frozenset(calls.split())
        self.__name__, self.__doc__ = dispatcher.__name__, dispatcher.__doc__
        function = dispatcher.py_func
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self.kept = KernelFiles(self.name, (Path(function.__code__.co_filename), *_parts))
        dispatcher._can_compile = False  # or a writable array where one is only read would have a kernel of its own

    def __call__(self, *arguments: Any) -> None:
        tape = here.tape
        if tape is not None:
            tape.call(self, arguments)
            return
        try:
            self.dispatcher(*arguments)
            return
        except TypeError:  # Numba has nothing for these types
            if not self._compile_for(arguments):
                raise
        self.dispatcher(*arguments)

    def types(self, dtype: str) -> tuple[Any, ...]:
        """Numba's types of the arguments for this precision."""
        return tuple(LETTERS[letter](getattr(types, dtype)) for letter in self.signature)

    def is_ready(self, dtype: str) -> bool:
        """Whether the kernel can be called in this precision."""
        return self.types(dtype) in self.dispatcher.overloads

    def load(self, dtype: str) -> bool:
        """Load the kernel from disk for this precision, unless it is ready. Returns whether it is ready now."""
        if not self.is_ready(dtype):
            code = self.kept.load(types.void(*self.types(dtype)), self.dispatcher.targetctx)
            if code is not None:
                self.dispatcher.targetctx.insert_user_function(code.entry_point, code.fndesc, [code.library])
                self.dispatcher.add_overload(code)
        return self.is_ready(dtype)

    def compile(self, dtype: str) -> None:
        """Compile the kernel for this precision, and store it on disk."""
        signature = types.void(*self.types(dtype))
        with global_compiler_lock:
            code = self.dispatcher._compiler.compile(signature.args, signature.return_type)
            self.dispatcher.add_overload(code)
        self.kept.save(signature, code)

    def is_kept(self, dtype: str) -> bool:
        """Whether other processes will find it on disk."""
        return self.kept.is_kept(types.void(*self.types(dtype)), self.dispatcher.targetctx)

    def _compile_for(self, arguments: Sequence[Any]) -> bool:
        """Compile the kernel for the precision of these arguments. False if it was compiled, or if they have none."""
        given = zip(self.signature, arguments, strict=True)
        own = [str(getattr(x, "dtype", "")) for letter, x in given if letter in OF_PRECISION] or [DTYPES[0]]
        if own[0] not in DTYPES or self.is_ready(own[0]):
            return False
        prepare([self], own[0])
        return True


_kernels: list[Kernel] = []
_one_at_a_time = threading.RLock()


def inlined(function: Callable[..., Any]) -> Part:
    """Declare a function that kernels call; it is compiled as part of them."""
    return numba.njit(nogil=True, fastmath=FASTMATH, error_model="numpy")(function)


def exact(function: Callable[..., Any]) -> Part:
    """Declare such a function whose operations keep their written order; a·b + c may become one instruction.

    Without this, Numba would compile it with the fast-math flags of its first caller.
    """
    return numba.njit(nogil=True, fastmath={"contract"}, error_model="numpy")(function)


def kernel(signature: str, calls: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel that returns nothing; signature has one of LETTERS for each argument, calls is as in Kernel."""

    def declare(function: Callable[..., Any]) -> Kernel:
        _kernels.append(Kernel(inlined(function), signature, calls))
        return _kernels[-1]

    return declare


def compile_ahead(calls: Iterable[str], dtype: str) -> list[Kernel]:
    """Make all kernels ready that these callers need. Returns those that had to be compiled."""
    wanted = frozenset(calls)
    return prepare([each for each in _kernels if each.calls & wanted], dtype)


def compile_all(dtype: str) -> tuple[list[Kernel], list[Kernel]]:
    """Make every kernel ready. Returns all kernels, and those that had to be compiled."""
    return _kernels, prepare(_kernels, dtype)


def prepare(kernels: Sequence[Kernel], dtype: str) -> list[Kernel]:
    """Load these kernels from disk and compile the missing ones, with a message. Returns the compiled ones."""
    with _one_at_a_time:
        missing = [each for each in kernels if not each.load(dtype)]
        if missing:
            compile_several(missing, dtype)
        return missing


def named(name: str) -> Kernel:
    """The kernel of this name. Raises KeyError."""
    return {each.name: each for each in _kernels}[name]


def serve(dtype: str) -> None:
    """The program of a compiling process: read names of kernels, compile each, keep it on disk, and print its name.

    All kernels are declared by then, since Python imports this module's package first.
    """
    for line in sys.stdin:
        kernel = named(line.strip())
        if not kernel.load(dtype):
            kernel.compile(dtype)
        print(kernel.name, flush=True)
