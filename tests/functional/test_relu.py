"""ReLU: the gate is set by the input, never by the gradient."""

import numpy as np

from npformer.functional import relu_backward, relu_forward


def test_the_gate_looks_at_x_and_not_at_dy():
    _, cache = relu_forward(np.array([-2.0, -2.0, 3.0, 3.0, 0.0]))
    (dx,) = relu_backward(np.array([5.0, -5.0, 5.0, -5.0, 5.0]), cache)
    assert dx.tolist() == [0, 0, 5, -5, 0]
