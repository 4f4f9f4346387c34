"""The numbers in the museum's stories, measured on the bugs themselves."""

import numpy as np
import pytest

from npformer import functional as F  # noqa: N812
from npformer.backend import Arena
from npformer.functional.positions import sinusoidal_table
from npformer.lab.museum.bugs import bug
from npformer.lab.museum.patch import patched
from npformer.layers import Parameter
from npformer.optim import Adam, Noam, clip_by_global_norm
from tests.check.functions import normal


def arena_of(backend, *gradients):
    """An arena with a parameter of one number for each gradient."""
    named = [(f"w{i}", Parameter(f"w{i}", backend.array(np.zeros(1))), ()) for i in range(len(gradients))]
    arena = Arena(named, backend)
    for segment, gradient in zip(arena.segments, gradients, strict=True):
        arena.grads[segment.start : segment.stop] = gradient
    return arena


def lengths(optimizer, steps=200):
    """How far one number moves at each step, if its gradient is always 3."""
    lengths = []
    for _ in range(steps):
        before = float(optimizer.arena.values[0])
        optimizer.step()
        lengths.append(before - float(optimizer.arena.values[0]))
    return lengths


@pytest.mark.parametrize(
    ("betas", "first", "most", "at"), [((0.9, 0.98), 0.71, 1.55, 14), ((0.9, 0.999), 3.2, 6.6, 12)]
)
def test_adam_without_its_corrections(betas, first, most, at):
    with patched(bug("adam-no-correction").edits) as backend:
        norms = lengths(Adam(arena_of(backend, 3.0), lr=1.0, betas=betas, eps=1e-12))
    assert norms[0] == pytest.approx(first, rel=0.02)
    assert (max(norms), norms.index(max(norms)) + 1) == (pytest.approx(most, rel=0.005), at)
    if betas == (0.9, 0.98):
        assert [length < 1 for length in norms] == [step <= 2 for step in range(1, 201)]


def test_a_resume_that_loses_the_moments(numpy64):
    optimizer = Adam(arena_of(numpy64, 3.0), lr=1.0, betas=(0.9, 0.999), eps=1e-12)
    optimizer.t = 10**6
    norms = lengths(optimizer, 40)
    assert (round(norms[0], 1), round(max(norms), 1), norms.index(max(norms))) == (3.2, 6.6, 11)


def test_a_schedule_that_counts_a_hundred_tensors():
    noam = Noam(512)
    ratios = [noam(100 * step) / noam(step) for step in range(1, 6001)]
    np.testing.assert_allclose(ratios[:40], 100)
    assert all(ratio < 100 for ratio in ratios[40:])
    assert 1 + int(np.argmin(np.abs(np.log(ratios)))) == 862
    np.testing.assert_allclose(ratios[3999:], 0.1)


def test_clipping_each_tensor_lets_through_the_root_of_their_number():
    with patched(bug("clip-per-tensor").edits) as backend:
        arena = arena_of(backend, *([5.0] * 9))
        clip_by_global_norm(arena, 2.0)
    assert np.linalg.norm(arena.grads) == pytest.approx(3 * 2.0)


@pytest.mark.parametrize(
    ("limit", "norm", "scaled_norm"),
    [(1, 2, 1 / 2), (1, 0.5, 0.5), (0.25, 0.6, 0.25 / 0.6), (0.25, 0.4, 0.4), (4, 3, 4 / 3)],
)
def test_a_norm_without_its_root(limit, norm, scaled_norm):
    with patched(bug("clip-squared").edits) as backend:
        arena = arena_of(backend, 0.6 * norm, 0.8 * norm)
        clip_by_global_norm(arena, limit)
    assert np.linalg.norm(arena.grads) == pytest.approx(scaled_norm)


@pytest.mark.parametrize("width", [6, 7])
def test_sines_first_are_the_same_columns_in_another_order(width):
    right = sinusoidal_table(9, width, 0, np.ones(1))
    with patched(bug("positions-columns").edits):
        wrong = sinusoidal_table(9, width, 0, np.ones(1))
    assert not np.array_equal(wrong, right)
    assert sorted(map(tuple, wrong.T)) == sorted(map(tuple, right.T))


@pytest.mark.parametrize(("padding", "ratio"), [(0, 4), (3, (8 - 3) / 2)])
def test_a_loss_divided_by_the_batch(padding, ratio):
    logits, targets = normal(2, 4, 5), np.full((2, 4), 3)
    targets[1, 4 - padding :] = 0
    (right,) = F.cross_entropy_backward(1.0, F.cross_entropy_forward(logits, targets)[1])
    with patched(bug("loss-by-batch").edits):
        (wrong,) = F.cross_entropy_backward(1.0, F.cross_entropy_forward(logits, targets)[1])
    np.testing.assert_allclose(wrong, ratio * right, rtol=1e-14)


def test_softmax_like_a_sigmoid_is_seen_by_ones_and_not_by_the_diagonal():
    x = normal(1, 5)
    with patched(bug("softmax-diagonal").edits):
        cache = F.softmax_forward(x)[1]
        by_ones = F.softmax_backward(np.ones((1, 5)), cache)[0]
        diagonal = [F.softmax_backward(np.eye(5)[[i]], cache)[0][0, i] for i in range(5)]
        alone = F.softmax_backward(np.ones((1, 1)), F.softmax_forward(x[:, :1])[1])[0]
    assert np.min(by_ones) > 0.01  # and 0 is right
    right = [F.softmax_backward(np.eye(5)[[i]], cache)[0][0, i] for i in range(5)]
    np.testing.assert_allclose(diagonal, right, rtol=1e-13)
    assert alone == 0


def test_differences_in_float32_tell_one_gelu_from_the_other_before_they_are_summed():
    """Of 100,000 numbers one moves: the rounding of the sum of all hides an error of 9e-4."""
    x = normal(100_000).astype(np.float32)
    dy = np.ones_like(x)
    dx = F.gelu_backward(dy, F.gelu_forward(x)[1])[0]
    with patched(bug("gelu-tanh-derivative").edits, "float32"):
        wrong = F.gelu_backward(dy, F.gelu_forward(x)[1])[0]
    at = int(np.argmax(np.abs(wrong - dx)))
    assert 8.6e-4 < abs(wrong[at] - dx[at]) < 9e-4
    h = np.zeros_like(x)
    h[at] = 2.0**-7
    above, below = F.gelu_forward(x + h)[0], F.gelu_forward(x - h)[0]
    step = float((x + h)[at]) - float((x - h)[at])
    apart = abs(float(np.sum(above - below)) / step - dx[at])
    summed = abs(float(np.sum(above) - np.sum(below)) / step - dx[at])
    assert 10 * apart < abs(wrong[at] - dx[at]) < summed
