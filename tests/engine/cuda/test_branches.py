"""The gradient of a sub-layer's input is added to the stream's within a product, where that is the same sum."""

import numpy as np
import pytest

from npformer.backend import get_backend
from npformer.engine.cuda import cuda_ops
from npformer.engine.cuda.sums import DeviceBranches, backward_pass
from npformer.layers import EncoderLayer
from tests.engine.cuda import test_capture

new_step = test_capture.new_step
PLAIN = lambda: get_backend("numpy", "float64", kernels="plain", threads=1)  # noqa: E731


class Own(EncoderLayer):
    """A user's, which adds the two gradients by itself, and says nothing about branches."""

    static = True

    def backward(self, dy, cache):
        dx, df = self.join_backward(dy, None, cache.pop())
        dx = dx + self.feed_forward.backward(df, cache.pop())
        dx, df = self.join_backward(dx, None, cache.pop())
        return self.enter_backward(dx + self.self_attention.backward(df, cache.pop()), None, cache.pop())


CASES = {
    "post-LN": {}, "nothing dropped": {"dropout": 0.0}, "pre-LN": {"norm_order": "pre"},
    "recomputed": {"recompute": True}, "gelu": {"activation": "gelu"}, "a layer of one's own": {},
}  # fmt: skip


@pytest.fixture
def counted(monkeypatch):
    """How often a gradient was added to another within a product."""
    added = []
    real = DeviceBranches.closed

    def closed(self, dx):
        added.append(real(self, dx))
        return added[-1]

    monkeypatch.setattr(DeviceBranches, "closed", closed)
    return added


def trained(step, own):
    if own:
        step.model.encoder.layers[0].__class__ = Own
    return test_capture.run(step, test_capture.batches(4))


@pytest.mark.parametrize("case", CASES)
def test_the_gradients_are_the_hosts(case, new_step, counted):
    own = case == "a layer of one's own"
    found = trained(new_step(CASES[case], "float64"), own)
    count = len(counted)
    expected = trained(new_step(CASES[case], PLAIN()), own)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)
    branches = {"nothing dropped": 0, "pre-LN": 0, "a layer of one's own": 3}.get(case, 5)
    assert sum(counted) == 2 * branches, "run once, recorded once"
    assert len(counted) == count, "the host's backend has none"


def test_only_an_operation_with_the_same_input_adds_to_it(runtime):
    ops, branches, rng = cuda_ops(runtime), DeviceBranches(runtime), np.random.default_rng(1)
    x, y = (rng.normal(size=(2, 3, 4)) for _ in range(2))
    weight, bias, dy = rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=(2, 3, 5))
    (_, of_x), (_, of_y), (_, of_part) = (ops.linear.forward(z, weight, bias) for z in (x, y, x[:1]))
    places = np.zeros((4, 5)), np.zeros(5)
    alone = dy @ weight.T
    with backward_pass(runtime):
        dx = np.ones((2, 3, 4))
        branches.open(x, dx)
        np.testing.assert_allclose(ops.linear.backward(dy, of_y, places), alone, rtol=1e-12)
        np.testing.assert_allclose(ops.linear.backward(dy[:1], of_part, places), alone[:1], rtol=1e-12)
        assert (dx == 1).all()
        assert ops.linear.backward(dy, of_x, places) is dx
        np.testing.assert_allclose(dx, 1 + alone, rtol=1e-12)
        assert ops.linear.backward(dy, of_x, places) is not dx, "the second one is new"
        assert branches.closed(dx)
        branches.open(x, np.ones((2, 3, 4)))
        assert not branches.closed(dx)
        assert ops.linear.backward(dy, of_x, places) is not dx
    branches.open(x, dx)
    assert not branches.closed(dx), "outside of a backward pass"


def test_a_sum_that_reads_the_gradient_is_made_before(runtime):
    ops, x, weight = cuda_ops(runtime), np.ones((3, 4)), np.ones((4, 4))
    _, cache = ops.linear.forward(x, weight, np.zeros(4))
    dx, db = np.full((3, 4), 2.0), np.zeros(4)
    with backward_pass(runtime):
        DeviceBranches(runtime).open(x, dx)
        assert ops.linear.backward(dx, cache, (np.zeros((4, 4)), db)) is dx
    assert (db == 6).all()
    assert (dx == 10).all()
