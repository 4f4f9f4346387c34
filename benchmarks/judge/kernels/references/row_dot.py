"""y (N,) = the products of the rows of a and b (N, C)."""


def inputs(rng):
    return tuple(rng.normal(size=(2, 6, 13)))


def forward(a, b):
    return (a * b).sum(1), (a, b)


def backward(dy, cache):
    a, b = cache
    g = dy[:, None]
    return g * b, g * a
