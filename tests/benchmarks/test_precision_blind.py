"""The kernels of benchmarks/precision/blind.py deserve their verdicts, by their references and without the check."""

import contextlib
from collections import Counter
from unittest import mock

import numpy as np
import pytest

from benchmarks.precision import (
    blind,
    blind_below,
    blind_right,
    blind_second,
    blind_second_rounding,
    blind_wrong,
    blind_wrong_loops,
)
from benchmarks.precision.kernel import BELOW, RIGHT, STORED, WRONG, is_float, rounded

MODULES = (blind_right, blind_wrong, blind_wrong_loops, blind_below, *blind_second.MODULES)
LISTS = pytest.mark.parametrize("kernels", [blind.FIRST, blind.SECOND], ids=["first", "second"])
#: Right in exact arithmetic: their mistake is a cast, or an algorithm that magnifies roundings.
BY_ROUNDING = {
    "instance-norm-one-pass",
    *(kernel.name for kernel in blind_second_rounding.KERNELS),
}
MAGNIFIED = 1e-11  # what such an algorithm makes of a rounding in float64
POLYNOMIALS = {"bumps-polynomial-exp": 2.0**-24}  # right to float32 and no further
SEEDS = range(5)
KERNELS = pytest.mark.parametrize("kernel", blind.BLIND, ids=lambda kernel: kernel.name)


def operand_roundoff(precision):
    """The largest unit roundoff of a kernel: TF32's operands have 11 bits."""
    return 2.0**-11 if precision == "tf32" else STORED[precision]


@contextlib.contextmanager
def without_rounding():
    """No cast and no product rounds, so that float64 inputs stay float64."""
    with contextlib.ExitStack() as stack:
        for module in MODULES:
            for name in ("half", "single", "bfloat16", "tf32"):
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, np.asarray))
            if hasattr(module, "tf32_product"):
                stack.enter_context(mock.patch.object(module, "tf32_product", np.matmul))
        yield


def drawn(kernel, seed):
    """The inputs as the kernel takes them, the same in float64, and dy as the kernel takes it."""
    inputs = kernel.inputs(seed)
    wide = tuple(x.astype(np.float64) if is_float(x) else x for x in inputs)
    shape = np.shape(kernel.reference[0](*wide)[0])
    return inputs, wide, rounded(np.asarray(np.random.default_rng(seed).normal(size=shape)), kernel.precision)


def outcome(kernel, inputs, dy):
    """y and the gradients of the kernel; PyTorch's are those of its function of tensors, with casts for float32."""
    if kernel.name not in blind.BODIES:
        y, cache = kernel.target[0](*inputs)
        return y, kernel.target[1](dy, cache)
    torch = pytest.importorskip("torch")
    tensors = [torch.tensor(x, requires_grad=is_float(x)) for x in inputs]
    narrow = kernel.precision == "bfloat16" and dy.dtype == np.float32
    cast = [x.bfloat16() if narrow and x.is_floating_point() else x for x in tensors]
    y = blind.BODIES[kernel.name](*cast)
    y = y.float() if narrow else y
    gradients = torch.autograd.grad(y, [x for x in tensors if x.requires_grad], torch.tensor(dy))
    return y.detach().numpy(), [g.numpy() for g in gradients]


def truth(kernel, wide, dy):
    """y and the gradients of the reference in float64."""
    y, cache = kernel.reference[0](*wide)
    return y, kernel.reference[1](dy.astype(np.float64), cache)


def distance(arrays, expected):
    """The largest difference of two lists of arrays, each array's relative to its largest entry."""
    return max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(arrays, expected, strict=True))


def of_entries(arrays, expected):
    """The largest relative difference of an entry that is not zero."""
    return max(np.abs((a - b)[b != 0] / b[b != 0]).max() for a, b in zip(arrays, expected, strict=True))


@LISTS
def test_a_list_has_ten_kernels_of_every_verdict_and_all_precisions(kernels):
    pytest.importorskip("torch")
    assert Counter(kernel.verdict for kernel in kernels) == {RIGHT: 10, WRONG: 10, BELOW: 10}
    assert {(k.verdict, k.precision) for k in kernels} == {(v, p) for v in (RIGHT, WRONG, BELOW) for p in STORED}
    assert all(bool(kernel.mistake) == (kernel.verdict != RIGHT) for kernel in kernels)
    assert all(bool(kernel.size) == (kernel.verdict == BELOW) for kernel in kernels)


@KERNELS
@pytest.mark.parametrize("seed", SEEDS)
def test_without_rounding_only_the_mistake_is_left(kernel, seed):
    _, wide, dy = drawn(kernel, seed)
    with without_rounding():
        y, gradients = outcome(kernel, wide, dy.astype(np.float64))
    expected_y, expected = truth(kernel, wide, dy)
    exact = POLYNOMIALS.get(kernel.name, 1e-14)
    np.testing.assert_allclose(y, expected_y, rtol=0, atol=exact * max(1, np.abs(expected_y).max()))
    mistake = distance(gradients, expected)
    if kernel.verdict == RIGHT:
        assert mistake < exact
    elif kernel.name in BY_ROUNDING:
        assert mistake < MAGNIFIED
    elif kernel.verdict == WRONG:
        assert mistake > 3 * operand_roundoff(kernel.precision)  # of the largest entry, hence of every entry
    else:
        assert kernel.size / 4 < mistake < 4 * kernel.size
        assert kernel.size < STORED[kernel.precision] / 2
        assert of_entries(gradients, expected) < STORED[kernel.precision]


@KERNELS
@pytest.mark.parametrize("seed", SEEDS)
def test_with_rounding_only_the_wrong_kernels_are_far_from_the_reference(kernel, seed):
    inputs, wide, dy = drawn(kernel, seed)
    error = distance(outcome(kernel, inputs, dy)[1], truth(kernel, wide, dy)[1])
    roundoff = operand_roundoff(kernel.precision)
    if kernel.verdict == WRONG:
        assert error > 3 * roundoff
    else:  # logarithms and powers multiply a rounding, sums add some
        assert error < 32 * roundoff
