"""The kernels in low precision called right are right, those called wrong are wrong, and the references are right."""

from collections import Counter

import numpy as np
import pytest

from benchmarks.precision import kernel as casts
from benchmarks.precision.blind import BLIND
from benchmarks.precision.kernel import BELOW, RIGHT, STORED, WRONG, is_float, rounded
from benchmarks.precision.listed import KERNELS, THEMES

ALL = (*KERNELS, *BLIND)
SEEDS = range(5)
SAMPLED = 40  # entries of a large input that are moved alone
#: Kernels whose mistake is a rounding: computed in float64 they are right.
ROUNDED_AWAY = {"sigmoid's loss, bfloat16, where it is confident", "tanh, float16, where it is saturated"}
RIGHTS, WRONGS, BELOWS = ([each for each in KERNELS if each.verdict == kind] for kind in (RIGHT, WRONG, BELOW))
CASTS = ("bfloat16", "float16", "float32", "tf32")


def pair_of(target):
    return target if isinstance(target, tuple) else (target.forward, target.backward)


def gradients(pair, inputs, dy):
    forward, backward = pair
    grads = backward(dy, forward(*inputs)[1])
    return grads if isinstance(grads, tuple) else (grads,)


def wide(inputs):
    return tuple(x.astype(np.float64) if is_float(x) else x for x in inputs)


def upstream(kernel, inputs, seed):
    shape = np.shape(kernel.reference[0](*wide(inputs))[0])
    return rounded(np.asarray(np.random.default_rng([seed, 12]).normal(size=shape)), kernel.precision)


def claims(kernel, seed):
    """(the kernel's gradients, the reference's in float64 at the same inputs and dy)."""
    inputs = kernel.inputs(seed)
    dy = upstream(kernel, inputs, seed)
    right = gradients(kernel.reference, wide(inputs), dy.astype(np.float64))
    return gradients(pair_of(kernel.target), inputs, dy), right


def unit(kernel):
    """One rounding: of what is stored, or of a product's operands in TF32."""
    return 2.0**-11 if kernel.precision == "tf32" else STORED[kernel.precision]


def rms(x):
    return np.sqrt(np.mean(np.square(x)))


def roundings(kernel, claim, right):
    """The error of the worst entry, or of the worst sum over an axis, in roundings.

    Entries smaller than their root mean square count as that large; a sum of rounded entries errs by the root of the
    sum of their squares, or of a thousandth of that mean where all of them are 0.
    """
    error = claim.astype(np.float64) - right
    worst = np.max(np.abs(error) / np.maximum(np.abs(right), rms(right)))
    for axis in range(right.ndim):
        length = np.sqrt(np.square(right).sum(axis))
        worst = max(worst, np.max(np.abs(error.sum(axis)) / np.maximum(length, 1e-3 * rms(right))))
    return worst / unit(kernel)


def moved(x, u, rng):
    """x with each number in it moved by one rounding: arrays in tuples, too."""
    if isinstance(x, tuple):
        return tuple(moved(each, u, rng) for each in x)
    is_moved = isinstance(x, np.ndarray) and x.dtype.kind == "f"
    return x * (1 + u * rng.choice([-1, 1], size=x.shape)) if is_moved else x


def rounding_of(kernel, seed):
    """By how much (root mean square) one rounding of the inputs, of dy, of what is kept and of the result moves it."""
    u, rng = unit(kernel), np.random.default_rng([seed, 13])
    inputs = wide(kernel.inputs(seed))
    dy = upstream(kernel, inputs, seed).astype(np.float64)
    forward, backward = kernel.reference
    right = gradients(kernel.reference, inputs, dy)
    total = [np.square(u * rms(each)) for each in right]
    for _ in range(4):
        cache = moved(forward(*moved(inputs, u, rng))[1], u, rng)
        grads = backward(moved(dy, u, rng), cache)
        grads = grads if isinstance(grads, tuple) else (grads,)
        total = [t + np.square(rms(a - b)) / 4 for t, a, b in zip(total, grads, right, strict=True)]
    return [np.sqrt(each) for each in total]


@pytest.fixture
def unrounded(monkeypatch):
    """Kernels round nothing: in float64 they compute what their formulas say."""
    for module in (casts, *THEMES):
        for name in CASTS:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda x: x)


def named(kernels):
    return pytest.mark.parametrize("kernel", kernels, ids=[kernel.name for kernel in kernels])


def test_the_list_has_100_kernels():
    pytest.importorskip("torch", reason="PyTorch is not installed: its own kernels are not on the list")
    assert [len(RIGHTS), len(WRONGS), len(BELOWS)] == [50, 40, 10]
    for group in (RIGHTS, WRONGS, BELOWS):
        assert {each.precision for each in group} == set(STORED)


def test_names_are_unique_and_every_mistake_is_named():
    assert [name for name, count in Counter(each.name for each in ALL).items() if count > 1] == []
    assert [each.name for each in ALL if (each.verdict == RIGHT) == bool(each.mistake)] == []
    assert [each.name for each in ALL if (each.verdict == BELOW) != (each.size > 0)] == []


@named(ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_kernel_takes_its_inputs_and_returns_numbers_of_its_precision(kernel, seed):
    inputs = kernel.inputs(seed)
    dy = upstream(kernel, inputs, seed)
    y = np.asarray(pair_of(kernel.target)[0](*inputs)[0])
    grads = gradients(pair_of(kernel.target), inputs, dy)
    assert y.shape == dy.shape
    assert [x.shape for x in grads] == [x.shape for x in inputs if is_float(x)]
    for x in (y, *grads):
        assert x.dtype == (np.float16 if kernel.precision == "float16" else np.float32)
        assert np.isfinite(x).all()
        np.testing.assert_array_equal(x, rounded(x, kernel.precision))


def directions(x, seed):
    """Every entry of x alone; of a large x some entries alone and one move of them all."""
    rng, few = np.random.default_rng([seed, 5]), x.size <= 8 * SAMPLED
    alone = np.arange(x.size) if few else rng.choice(x.size, SAMPLED, replace=False)
    moves = [(np.arange(x.size) == i).reshape(x.shape).astype(x.dtype) for i in alone]
    return moves if few else [*moves, rng.normal(size=x.shape)]


@named(ALL)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_references_gradient_is_the_complex_step_of_its_forward(kernel, seed):
    inputs = wide(kernel.inputs(seed))
    dy = upstream(kernel, inputs, seed).astype(np.float64)
    right = iter(gradients(kernel.reference, inputs, dy))
    for i, x in enumerate(inputs):
        if not is_float(x):
            continue
        gradient, moves = next(right), directions(x, seed)
        steps = [kernel.reference[0](*inputs[:i], x + 1e-30j * v, *inputs[i + 1 :])[0] for v in moves]
        expected = np.array([(y * dy).sum().imag / 1e-30 for y in steps])
        slopes = np.array([(gradient * v).sum() for v in moves])
        np.testing.assert_allclose(slopes, expected, rtol=0, atol=1e-13 * max(1, np.abs(expected).max()))
    assert next(right, None) is None


@named(KERNELS)
def test_a_kernels_forward_is_its_references(kernel):
    """Off by some roundings at most, of the result and of the inputs."""
    inputs = kernel.inputs(1)
    y, right = pair_of(kernel.target)[0](*inputs)[0], kernel.reference[0](*wide(inputs))[0]
    near = kernel.reference[0](*moved(wide(inputs), unit(kernel), np.random.default_rng(15)))[0]
    assert rms(y - right) <= 4 * (unit(kernel) * rms(right) + rms(near - right))


@named([each for each in RIGHTS if not each.name.startswith("torch") or each.precision == "float32"])
def test_a_right_kernels_formula_is_right_in_float64(kernel, unrounded):
    for claim, right in zip(*claims(kernel, 0), strict=True):
        assert rms(claim - right) <= 1e-11 * rms(right) + 1e-15


@named([*RIGHTS, *BELOWS])
def test_rounding_explains_how_far_a_right_kernel_is_off(kernel):
    """By 4 times what one rounding at each of these places moves, at most: √16, where a kernel rounds at 16 more."""
    for seed in SEEDS:
        for claim, right, moves in zip(*claims(kernel, seed), rounding_of(kernel, seed), strict=True):
            assert rms(claim - right) <= 4 * moves


@named(WRONGS)
def test_a_wrong_kernel_is_off_by_three_roundings_at_every_seed(kernel):
    for seed in SEEDS:
        assert max(roundings(kernel, *each) for each in zip(*claims(kernel, seed), strict=True)) >= 3


@named([each for each in WRONGS if each.name not in ROUNDED_AWAY])
def test_a_wrong_kernels_mistake_alone_is_three_roundings_at_every_seed(kernel, unrounded):
    for seed in SEEDS:
        assert max(roundings(kernel, *each) for each in zip(*claims(kernel, seed), strict=True)) >= 3


@named(BELOWS)
def test_a_small_mistake_alone_is_of_its_size_and_no_rounding(kernel, unrounded):
    """The size is that of the tensor that is most off, within a factor of 2; it is below a rounding of what is kept."""
    assert kernel.size < STORED[kernel.precision] or kernel.precision == "tf32"
    for seed in SEEDS:
        pairs = list(zip(*claims(kernel, seed), strict=True))
        worst = max(rms(claim - right) / rms(right) for claim, right in pairs)
        assert kernel.size / 2 <= worst <= kernel.size * 2
        assert max(roundings(kernel, *pair) for pair in pairs) < 3


def test_three_roundings_are_told_from_two():
    kernel = WRONGS[0]
    right = np.array([[1.0, -2.0, 1.0], [-1.0, 2.0, -1.0]])  # its sums over an axis are small, or 0
    assert kernel.precision == "bfloat16"
    assert roundings(kernel, right * (1 + 2 * 2.0**-8), right) == pytest.approx(2)
    assert roundings(kernel, right * (1 + 3 * 2.0**-8), right) == pytest.approx(3)
    assert roundings(kernel, right + 2.0**-8, right) == pytest.approx(np.sqrt(2))  # of a sum down a column of two ones


def test_a_wrong_formula_is_noticed(unrounded):
    """What says that a right kernel's formula is right says so of none of the wrong."""
    for kernel in WRONGS:
        if kernel.name not in ROUNDED_AWAY:
            errors = [rms(a - b) / rms(b) for a, b in zip(*claims(kernel, 0), strict=True)]
            assert max(errors) > 1e-6
