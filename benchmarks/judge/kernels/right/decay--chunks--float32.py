"""Four steps at a time: within a chunk by products of decays, from chunk to chunk by one number a channel."""

import numpy as np

CHUNK = 4


def scan(s, x):
    h, carry = np.empty_like(x), np.zeros_like(x[0])
    for start in range(0, len(x), CHUNK):
        for t in range(start, min(start + CHUNK, len(x))):
            carry = s[t] * carry + x[t]
            h[t] = carry
    return h


def forward(a, x):
    s = (1 + np.tanh(a / 2)) / 2
    h = scan(s, x)
    return h, (s, h)


def backward(dy, cache):
    s, h = cache
    later = np.concatenate([s[1:], np.zeros_like(s[:1])])
    dx = scan(later[::-1], np.ascontiguousarray(dy[::-1]))[::-1]
    before = np.concatenate([np.zeros_like(h[:1]), h[:-1]])
    return dx * before * s * (1 - s), dx
