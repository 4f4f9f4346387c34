"""Tiles of 32 rows, whatever is left in a last one; into buffers."""

ROWS = 32


def forward(x, w, out):
    total = w.sum()
    out[0][...] = (w[:, None] * x).sum(0) / total
    return x, w, out[0].copy(), total


def backward(dy, cache, out):
    x, w, y, total = cache
    g = dy / total
    for start in range(0, len(x), ROWS):
        rows = slice(start, min(start + ROWS, len(x)))
        out[0][rows] = w[rows, None] * g
        out[1][rows] = ((x[rows] - y) * g).sum(1)
