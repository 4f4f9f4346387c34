"""Cross-entropy on a card: padding, smoothing, targets that are no class, saturated logits, no tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npformer.backend import PLAIN, Ops

SHAPES = [(1, 1), (1, 7), (2, 3, 5), (4, 30, 61), (0, 3, 4), (2, 0, 4), (5,), (3, 5003)]
EVERY_DTYPE = pytest.mark.parametrize("dtype", ["float32", "float64"])


def case(dtype: str, shape: tuple[int, ...], scale: float = 1.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    logits = (scale * rng.normal(size=(*shape[:-1], 2 * shape[-1]))).astype(dtype)[..., ::2]
    logits.flags.writeable = False
    return logits, rng.integers(0, shape[-1], size=shape[:-1])


@EVERY_DTYPE
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ignore_index", [0, None, -100])
@pytest.mark.parametrize(("smoothing", "scale"), [(0.0, 1e4), (0.1, 1.0), (0.1, 1e4)])
def test_it_equals_the_plain_pair(
    agree: Callable[..., bool], dtype: str, shape: tuple[int, ...], ignore_index: int | None, smoothing: float,
    scale: float,
) -> None:  # fmt: skip
    logits, targets = case(dtype, shape, scale)
    assert agree("cross_entropy", logits, targets, ignore_index, smoothing)
    if targets.ndim and ignore_index is not None:
        some = np.where(targets % 2, targets, ignore_index)
        assert agree("cross_entropy", logits, some, ignore_index, smoothing)
        assert agree("cross_entropy", logits, np.full_like(targets, ignore_index), ignore_index, smoothing)


@EVERY_DTYPE
def test_targets_that_are_narrow_or_no_class(agree: Callable[..., bool], dtype: str) -> None:
    logits, targets = case(dtype, (3, 4, 5))
    assert agree("cross_entropy", logits, targets.astype(np.uint8), -100, 0.1)
    assert agree("cross_entropy", logits, np.repeat(targets, 2, axis=1)[:, ::2].astype(np.int16), 2)
    targets[0], targets[1, 2] = -1, 5
    for smoothing in (0.0, 0.2):
        assert agree("cross_entropy", logits, targets, 0, smoothing)
        assert agree("cross_entropy", logits, targets, -1, smoothing)


def test_dloss_is_a_number_or_lies_on_the_card(table: Ops) -> None:
    logits, targets = case("float32", (2, 3, 5))
    loss, cache = table.cross_entropy.forward(logits, targets)
    plain, plain_cache = PLAIN.cross_entropy.forward(logits, targets)
    assert loss.shape == plain.shape == ()
    assert loss.dtype == plain.dtype == np.float32
    for dloss in (0.5, 2, np.float32(0.5), np.array(0.5, np.float32), np.array(0.5), np.array(3)):
        found, true = table.cross_entropy.backward(dloss, cache), PLAIN.cross_entropy.backward(dloss, plain_cache)
        np.testing.assert_allclose(found, true, rtol=0, atol=1e-7)
        assert found.dtype == np.float32


def test_two_kernels_forward_and_one_back(card: Any, table: Ops) -> None:
    logits, targets = case("float32", (2, 3, 5))
    _, cache = table.cross_entropy.forward(logits, targets)
    table.cross_entropy.backward(1.0, cache)
    names = ["token_losses", "mean_loss", "token_losses_backward"]
    assert card.launched == [f"cross_entropy.{name}" for name in names]


@EVERY_DTYPE
def test_nothing_that_counts_gives_loss_0_and_gradient_0(table: Ops, dtype: str) -> None:
    logits, targets = case(dtype, (2, 3, 5), 1e4)
    loss, cache = table.cross_entropy.forward(logits, np.zeros_like(targets), 0, 0.1)
    assert loss == 0
    assert not table.cross_entropy.backward(1.0, cache).any()


@EVERY_DTYPE
def test_padding_may_hold_anything_and_what_counts_is_seen(table: Ops, dtype: str) -> None:
    logits, targets = np.array(case(dtype, (4, 5))[0]), np.array([1, 0, 3, 2])
    clean, cache = table.cross_entropy.forward(logits, targets, 0, 0.1)
    gradient = table.cross_entropy.backward(1.0, cache)
    logits[1] = np.nan  # padding
    loss, cache = table.cross_entropy.forward(logits, targets, 0, 0.1)
    assert loss == clean
    np.testing.assert_array_equal(table.cross_entropy.backward(1.0, cache), gradient)
    logits[3, 4] = np.nan
    loss, cache = table.cross_entropy.forward(logits, targets, 0, 0.1)
    assert np.isnan(loss)
    assert np.isnan(table.cross_entropy.backward(1.0, cache)).any(axis=1).tolist() == [False, False, False, True]


@EVERY_DTYPE
def test_a_class_that_is_ruled_out_has_no_share(table: Ops, dtype: str) -> None:
    """−∞ among the logits is an answer, not an error, if the target is another class."""
    logits, targets = np.array(case(dtype, (3, 40))[0]), np.array([1, 39, 3])
    logits[:, 4:20] = -np.inf
    allowed = np.delete(logits, np.s_[4:20], axis=1)
    loss, cache = table.cross_entropy.forward(logits, targets, None)
    fewer, plain_cache = PLAIN.cross_entropy.forward(allowed, np.array([1, 23, 3]), None)
    bound = {"float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(loss, fewer, rtol=bound)
    found = table.cross_entropy.backward(1.0, cache)
    assert not found[:, 4:20].any()
    (true,) = (PLAIN.cross_entropy.backward(1.0, plain_cache),)
    np.testing.assert_allclose(np.delete(found, np.s_[4:20], axis=1), true, rtol=0, atol=bound)
