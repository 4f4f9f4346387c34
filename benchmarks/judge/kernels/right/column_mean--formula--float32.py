"""As the reference has it."""


def forward(x, w):
    total = w.sum()
    y = w @ x / total
    return y, (x, w, y, total)


def backward(dy, cache):
    x, w, y, total = cache
    g = dy / total
    return w[:, None] * g, (x - y) @ g
