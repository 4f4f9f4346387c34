"""A session: backward again with other gradients, or with less of them at some sums, and L with one call changed."""

import numpy as np
import pytest

from npformer.check.inputs import as_tuple
from npformer.check.oracles import COMPLEX_H
from npformer.see.record.listening import Hooks, Moving

ORDERS = pytest.mark.parametrize("fixture", ["opened", "pre"])


@ORDERS
def test_the_same_again(request, fixture):
    opened = request.getfixturevalue(fixture)
    again = opened.run()
    assert again.keys() == opened.recording.gradients.keys()
    assert all(np.array_equal(again[name], g) for name, g in opened.recording.gradients.items())
    upstreams = [(call.upstream, opened.call_seen(call).upstream) for call in opened.live if call.upstream is not None]
    assert len(upstreams) > 30
    for now, recorded in upstreams:
        assert all(np.array_equal(one, other) for one, other in zip(as_tuple(now), as_tuple(recorded), strict=True))


def test_l_with_a_calls_output_moved_has_its_upstream_gradient_as_its_slope(opened):
    rng = np.random.default_rng(0)
    for call in opened.calls[:-1]:
        upstream = opened.call_seen(call).upstream
        direction = rng.normal(size=upstream.shape)
        slope = opened.loss_at({}, Moving(call.number, 0, 1j * COMPLEX_H * direction)).imag / COMPLEX_H
        assert abs(slope - np.sum(upstream * direction)) <= 1e-13 * np.sum(np.abs(upstream * direction)), call.name


class FirstToken(Hooks):
    """Keeps the calls of operations that it sees, and drops all gradients of the loss but the first token's."""

    def __init__(self):
        self.calls = []

    def leaving(self, call, dy, gradients, into):
        self.calls.append(call)
        if call is not None and call.operation == "cross_entropy":
            kept = np.zeros_like(gradients)
            kept[0, 0] = gradients[0, 0]
            return kept
        return gradients


def test_a_watch_sees_the_recorded_calls_and_may_change_what_they_hand_on(opened):
    hooks = FirstToken()
    again = opened.run(hooks)
    assert [call for call in hooks.calls if call.operation] == opened.backward_order
    dlogits = np.zeros_like(opened.upstream[0])
    dlogits[0, 0] = opened.upstream[0][0, 0]
    expected = opened.run(upstream=(dlogits,))
    assert all(np.array_equal(again[name], g) for name, g in expected.items())
    assert not np.array_equal(again["generator.bias"], opened.recording.gradients["generator.bias"])
