"""Calls of kernels as data: 64-bit words that one compiled loop executes without Python's lock.

    a call      where its forwarder is | where the next call begins | the kernel's arguments, word by word
    a number    one word: its bits
    an array    how many numbers | bytes of one | address | shape … | strides …

Each kernel has a forwarder. It reads the arguments from the words and calls the kernel as compiled code does. Numba
passes two more arguments for each array, to count references. Nothing is counted here: the caller holds the memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core.compiler_lock import global_compiler_lock

from npformer.engine.numba.arguments import flat
from npformer.engine.numba.compiling import Kernel, prepare
from npformer.typing import HostArray

WORD, BYTE, CODE = ir.IntType(64), ir.IntType(8), ir.IntType(32)
ADDRESS = BYTE.as_pointer()
NO_ERROR = (0, -2)  # what a kernel returns; -2: it returned None
_kept: list[Any] = []  # compiled code, which stays as long as the process
_forwarders: dict[tuple[Kernel, str], int] = {}  # where each lies


def program(calls: Sequence[tuple[Kernel, Sequence[int]]], dtype: str) -> tuple[HostArray, list[int]]:
    """The words of these calls, and the index at which the arguments of each begin."""
    called = list(dict.fromkeys(kernel for kernel, _ in calls))
    prepare([kernel for kernel in called if not kernel.is_ready(dtype)], dtype)
    _make_forwarders(called, dtype)
    words: list[int] = []
    starts = []
    for kernel, arguments in calls:
        words += (_forwarders[kernel, dtype], len(words) + 2 + len(arguments), *arguments)
        starts.append(len(words) - len(arguments))
    return np.array(words, dtype=np.int64), starts


def run(place: int, size: int, times: int = 1, stops: int = 0) -> None:
    """Execute the calls in order, so many words at this address, until a number at the address stops is not 0.

    But at most so many times. Raises MemoryError if a kernel failed.
    """
    if _loop()(place, size, times, stops):
        raise MemoryError("a kernel of a recorded step failed, most often for lack of memory")


@cache
@global_compiler_lock
def _loop() -> Any:
    """The loop of ``run``: it returns 0, or 1 if a kernel failed; ctypes releases Python's lock."""
    module = ir.Module()
    pointer = WORD.as_pointer()
    function = ir.Function(module, ir.FunctionType(WORD, [pointer, WORD, WORD, pointer]), "run")
    words, size, times, stops = function.args
    names = "begin", "again", "check", "call", "over", "look", "good", "bad"
    begin, again, check, call, over, look, good, bad = map(function.append_basic_block, names)
    builder = ir.IRBuilder(begin)
    builder.branch(again)
    builder.position_at_end(again)
    left = builder.phi(WORD)
    left.add_incoming(times, begin)
    builder.branch(check)
    builder.position_at_end(check)
    place = builder.phi(WORD)
    place.add_incoming(WORD(0), again)
    builder.cbranch(builder.icmp_signed("<", place, size), call, over)
    builder.position_at_end(call)
    forwarded = ir.FunctionType(CODE, [WORD.as_pointer()]).as_pointer()
    target = builder.inttoptr(builder.load(builder.gep(words, [place])), forwarded)
    following = builder.load(builder.gep(words, [builder.add(place, WORD(1))]))
    code = builder.call(target, [builder.gep(words, [builder.add(place, WORD(2))])])
    place.add_incoming(following, call)
    fine = builder.or_(*(builder.icmp_signed("==", code, CODE(each)) for each in NO_ERROR))
    builder.cbranch(fine, check, bad)
    builder.position_at_end(over)
    fewer = builder.sub(left, WORD(1))
    builder.cbranch(builder.icmp_signed(">", fewer, WORD(0)), look, good)
    builder.position_at_end(look)
    left.add_incoming(fewer, look)
    builder.cbranch(builder.icmp_signed("==", builder.load(stops), WORD(0)), again, good)
    for block, result in ((good, 0), (bad, 1)):
        builder.position_at_end(block)
        builder.ret(WORD(result))
    kinds = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
    return ctypes.CFUNCTYPE(*kinds)(*_compiled(module, ["run"]))


@global_compiler_lock
def _make_forwarders(kernels: Sequence[Kernel], dtype: str) -> None:
    """Compile a forwarder for each kernel: i32 (i64*), which calls the kernel with the words."""
    kernels = [kernel for kernel in kernels if (kernel, dtype) not in _forwarders]
    if not kernels:
        return
    module = ir.Module()
    names = [f"forward_{i}" for i in range(len(kernels))]
    for kernel, name in zip(kernels, names, strict=True):
        _write_forwarder(module, name, kernel, kernel.types(dtype))
    addresses = _compiled(module, names)
    _forwarders.update({(kernel, dtype): address for kernel, address in zip(kernels, addresses, strict=True)})


def _write_forwarder(module: Any, name: str, kernel: Kernel, kinds: Sequence[Any]) -> None:
    """A function of this name, for arguments of these types."""
    result = kernel.dispatcher.overloads[kinds]
    target = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    function = ir.Function(module, ir.FunctionType(CODE, [WORD.as_pointer()]), name)
    builder = ir.IRBuilder(function.append_basic_block())
    places = [builder.alloca(ADDRESS) for _ in range(2)]  # for what it returns, and for its error
    arguments: list[Any] = list(places)
    next_word = 0
    for kind in flat(kinds):
        is_array = isinstance(kind, numba.types.Array)
        if is_array:
            arguments += [ADDRESS(None)] * 2
        for part in range(3 + 2 * kind.ndim if is_array else 1):
            word = builder.load(builder.gep(function.args[0], [WORD(next_word)]))
            arguments.append(_argument(builder, word, kind, part))
            next_word += 1
    native = ir.FunctionType(CODE, [argument.type for argument in arguments]).as_pointer()
    builder.ret(builder.call(builder.inttoptr(WORD(target), native), arguments))


def _argument(builder: Any, word: Any, kind: Any, part: int) -> Any:
    """Convert a word to the type of an argument."""
    if isinstance(kind, numba.types.Array):
        return builder.inttoptr(word, ADDRESS) if part == 2 else word
    if kind == numba.types.float64:
        return builder.bitcast(word, ir.DoubleType())
    return builder.trunc(word, BYTE) if kind == numba.types.boolean else word


def _compiled(module: Any, names: Sequence[str]) -> list[int]:
    """Compile a module and return the addresses of these functions."""
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    _kept.append((engine, machine))
    return [engine.get_function_address(name) for name in names]
