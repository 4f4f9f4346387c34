"""As its formula reads."""


def forward(x, w, z):
    xw = x @ w
    return (xw * z).sum(1), (x, w, z)


def backward(dy, cache):
    x, w, z = cache
    g = dy[:, None]
    return g * (z @ w.T), (g * x).T @ z, g * (x @ w)
