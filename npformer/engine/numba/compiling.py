"""Declares kernels and compiles them: once per precision, stored on disk, with a message while it takes time.

A kernel is a Python function of arrays that Numba turns into machine code. It is declared with the types of
its arguments, so that read-only and writable arrays, or Python and NumPy numbers, never lead to a
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
from typing import Any

import numba
from numba import types
from numba.core.compiler_lock import global_compiler_lock

from npformer.engine.numba.arguments import InMemory, kinds_of, numba_type
from npformer.engine.numba.kernel_files import KernelFiles
from npformer.engine.numba.parallel_compile import compile_several
from npformer.engine.numba.recording import here

#: Sums may be reordered, so that they use whole vectors, and a·b + c may be one instruction; the rules
#: for NaN and infinity stay as they are.
FASTMATH = {"reassoc", "contract", "nsz"}

Part = Any  # a Numba dispatcher; compiled code calls it like the function it was made of
DTYPES = ("float32", "float64")


class Kernel:
    """A compiled function that Python calls. It annotates its arguments, as ``arguments`` says.

    calls names its callers: a direction of an operation ("linear.forward"), or a user outside the table ("adam").
    """

    def __init__(self, dispatcher: Part, calls: str = "") -> None:
        self.dispatcher, self.calls = dispatcher, frozenset(calls.split())
        self.__name__, self.__doc__ = dispatcher.__name__, dispatcher.__doc__
        function = dispatcher.py_func
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self.kinds, self.kept = kinds_of(function), KernelFiles(self.name, function)
        dispatcher._can_compile = False  # or a writable array where one is only read would have a kernel of its own

    def __call__(self, *arguments: Any) -> None:
        tape = here.tape
        if tape is not None:
            tape.call(self, arguments)
            return
        try:
            self.dispatcher(*arguments)
            return
        except TypeError:  # Numba has nothing for these types, or had nothing until another thread compiled it
            self._compile_for(arguments)
        self.dispatcher(*arguments)

    def types(self, dtype: str) -> tuple[Any, ...]:
        """Numba's types of the arguments for this precision."""
        return tuple(numba_type(kind, getattr(types, dtype)) for kind in self.kinds.values())

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

    def _compile_for(self, arguments: Sequence[Any]) -> None:
        """Compile the kernel for the precision of these arguments, if they have one that it is not compiled for."""
        pairs = zip(self.kinds.values(), arguments, strict=True)
        dtypes = [
            str(getattr(x, "dtype", "")) for kind, x in pairs if isinstance(kind, InMemory) and kind.number is None
        ]
        dtypes = dtypes or [DTYPES[0]]
        if dtypes[0] in DTYPES and not self.is_ready(dtypes[0]):
            prepare([self], dtypes[0])


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


def kernel(calls: str) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel that returns nothing; calls is as in Kernel."""

    def declare(function: Callable[..., Any]) -> Kernel:
        _kernels.append(Kernel(inlined(function), calls))
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
