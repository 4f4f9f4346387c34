"""What the backward needs is kept in a global, so it is that of the last forward."""

import numpy as np

state = {}


def forward(x, gamma, beta):
    c = x - x.mean(-1, keepdims=True)
    state["r"] = 1 / np.sqrt((c * c).mean(-1, keepdims=True) + np.float32(1e-5))
    state["h"] = c * state["r"]
    return gamma * state["h"] + beta, gamma


def backward(dy, gamma):
    h, r = state["h"], state["r"]
    g = gamma * dy
    dx = r * (g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True))
    return dx, (dy * h).sum(0), dy.sum(0)
