"""A program of calls does what the calls do, with every kind of argument, and stops where one fails."""

from typing import NamedTuple

import numba
import numpy as np
import pytest

from npformer.backend.workspace import Pool, address
from npformer.engine.numba import call_program, compiling
from npformer.engine.numba.arguments import Flags, Heads, Mask, Matrix, OutVector, OutWhole, Rows, Vector
from npformer.engine.numba.recording import Tape

NEVER = np.zeros(1, np.int64)


def kernel_of(function, dtype):
    """A kernel that is none of npformer's, compiled, and not kept on disk."""
    kernel = compiling.Kernel(numba.njit(nogil=True)(function))
    kernel.dispatcher.disable_compile(False)
    kernel.dispatcher.compile(numba.types.void(*kernel.types(dtype)))
    kernel.dispatcher.disable_compile()
    return kernel


def run(dtype, *calls, times=1, stops=NEVER):
    """Write the calls down, and make them so many times, or until stops holds a number that is not 0."""
    tape = Tape(dtype, Pool(limit=0), None)
    for kernel, arguments in calls:
        tape.call(kernel, arguments)
    words, _ = call_program.program(tape.calls, dtype)
    call_program.run(address(words), words.size, times, address(stops))


class Fractions(NamedTuple):
    whole: int
    fraction: float


class Options(NamedTuple):
    flag: bool
    ids: OutWhole
    numbers: Fractions


def everything(
    x: Vector, big: Rows, heads: Heads, flags: Flags, mask: Mask, options: Options, matrix: Matrix, rest: Rows,
    out: OutVector,
):  # fmt: skip
    """Something of every argument, and of its shape and strides."""
    ids, (whole, fraction) = options.ids, options.numbers
    out[0] = x[1] + big[1, 2] + heads[1, 0, 1, 1] + ids[2] + matrix[2, 1]
    out[1] = whole if options.flag else fraction
    out[2] = flags[1] * 10 + mask[1, 0]
    out[3] = big.shape[1] + heads.shape[3] * 10 + x.size * 100 + matrix.strides[0] // matrix.itemsize * 1000
    out[4] = rest.shape[1] + rest.size
    ids[0] = 9


@pytest.mark.parametrize("flag", [False, True])
def test_every_kind_of_argument_arrives(dtype, flag):
    kernel = kernel_of(everything, dtype)
    rng = np.random.default_rng(0)
    x, big = rng.random(3, dtype), rng.random((2, 3), dtype)
    heads = rng.random((2, 2, 2, 5), dtype).transpose(0, 2, 1, 3)[..., 1:]
    matrix = rng.random((3, 7), dtype)[:, 2:5]
    numbers = Fractions(-(2**40) if dtype == "float64" else -(2**20), 0.25)
    options = Options(flag, np.array([1, 2, 3]), numbers)
    flags, mask, rest = np.array([False, True]), np.array([[False], [True]]), np.empty((0, 4), dtype)
    arguments = (x, big, heads, flags, mask, options, matrix, rest)
    actual, true = np.zeros(5, dtype), np.zeros(5, dtype)
    run(dtype, (kernel, (*arguments, actual)))
    assert options.ids.tolist() == [9, 2, 3]
    kernel(*arguments, true)
    np.testing.assert_array_equal(actual, true)
    assert actual[3] == 3 + 40 + 300 + 7000


def append(log: OutWhole, value: int):
    if value == 3:
        raise ValueError("three")
    log[log[0]] = value
    log[0] += 1


def test_calls_are_made_as_often_as_they_are_to_be():
    kernel, log = kernel_of(append, "float64"), np.array([1, *[0] * 8])
    run("float64", (kernel, (log, 7)), (kernel, (log, 8)), times=2)
    assert log.tolist() == [5, 7, 8, 7, 8, *[0] * 4]
    run("float64", (kernel, (log, 9)), times=9, stops=log[6:])
    assert log.tolist() == [7, 7, 8, 7, 8, 9, 9, 0, 0]


def test_calls_are_made_in_order_until_one_fails():
    kernel = kernel_of(append, "float64")
    log = np.array([1, 0, 0, 0, 0])
    run("float64", *((kernel, (log, value)) for value in (7, 8)))
    assert log.tolist() == [3, 7, 8, 0, 0]
    with pytest.raises(MemoryError, match="a kernel of a recorded step failed"):
        run("float64", *((kernel, (log, value)) for value in (5, 3, 6)))
    assert log.tolist() == [4, 7, 8, 5, 0]
