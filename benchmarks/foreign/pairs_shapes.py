"""Operations that move elements, and additions with broadcasting."""

import numpy as np

from benchmarks.foreign.pair import foreign, normal, normals, wrong


def affine_forward(x, w, b):
    return x.reshape(len(x), -1) @ w + b, (x, w)


def affine_backward(dout, cache):
    x, w = cache
    dx = (dout @ w.T).reshape(x.shape)
    dw = x.reshape(len(x), -1).T @ dout
    return dx, dw, dout.sum(axis=0)


def bias_forward(x, b):
    return x + b, b.shape


def bias_backward(dy, shape):
    return dy, dy.sum(axis=(0, 1)).reshape(shape)


def outer_add_forward(u, v):
    return u[:, None] + v[None, :], None


def outer_add_backward(d, _):
    return d.sum(axis=1), d.sum(axis=0)


def scale_shift_forward(x, s, t):
    return x * s[:, None, None] + t, (x, s)


def scale_shift_backward(dy, cache):
    x, s = cache
    return dy * s[:, None, None], np.sum(dy * x, axis=(1, 2)), dy.sum(axis=0)


def pad_forward(x):
    return np.pad(x, ((1, 2), (0, 1))), x.shape


def pad_backward(dy, shape):
    return dy[1 : 1 + shape[0], : shape[1]]


def reflect_pad_forward(x, p=2):
    return np.pad(x, ((0, 0), (p, p)), mode="reflect"), p


def reflect_pad_backward(dy, p):
    dx = dy[:, p:-p].copy()
    dx[:, 1 : p + 1] += dy[:, :p][:, ::-1]
    dx[:, -p - 1 : -1] += dy[:, -p:][:, ::-1]
    return dx


def shift_forward(x, by=2):
    return np.roll(x, by, axis=1), by


def shift_backward(dy, by):
    return np.roll(dy, -by, axis=1)


def concat_forward(a, b, c):
    return np.concatenate([a, b, c], axis=1), (a.shape[1], b.shape[1])


def concat_backward(dy, sizes):
    na, nb = sizes
    return dy[:, :na], dy[:, na : na + nb], dy[:, na + nb :]


def stack_split_forward(x, y):
    z = np.stack([x, y, x * y], axis=1)
    left, right = np.split(z, 2, axis=2)
    return (left, right), (x, y)


def stack_split_backward(douts, cache):
    x, y = cache
    dz = np.concatenate(douts, axis=2)
    return dz[:, 0] + dz[:, 2] * y, dz[:, 1] + dz[:, 2] * x


def every_other_forward(x):
    return x[:, 1::2], x.shape


def every_other_backward(dy, shape):
    dx = np.zeros(shape, dtype=dy.dtype)
    dx[:, 1::2] = dy
    return dx


def upsample_forward(x, k=3):
    return np.repeat(x, k, axis=1), k


def upsample_backward(dy, k):
    return dy.reshape(dy.shape[0], -1, k).sum(axis=2)


def tile_forward(x, k=3):
    return np.tile(x, (1, k)), k


def tile_backward(dy, k):
    return dy.reshape(dy.shape[0], k, -1).sum(axis=1)


def split_heads_forward(x, heads=2):
    B, T, C = x.shape
    return x.reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3), x.shape


def split_heads_backward(dy, shape):
    return dy.transpose(0, 2, 1, 3).reshape(shape)


def patchify_forward(img, p=2):
    N, H, W = img.shape
    z = img.reshape(N, H // p, p, W // p, p).swapaxes(2, 3)
    return z.reshape(N, -1, p * p), (img.shape, p)


def patchify_backward(dy, cache):
    (N, H, W), p = cache
    return dy.reshape(N, H // p, W // p, p, p).swapaxes(2, 3).reshape(N, H, W)


def tril_mask_forward(a):
    return np.tril(a) * 2.0, None


def tril_mask_backward(dy, _):
    return np.tril(dy) * 2.0


def residual_forward(x, w):
    h = np.maximum(x @ w, 0)
    return x + h @ w.T, (x, w, h)


def residual_backward(dy, cache):
    x, w, h = cache
    dh = dy @ w
    dh[h <= 0] = 0
    dw = x.T @ dh + dy.T @ h
    return dy + dh @ w.T, dw


PAIRS = (
    foreign("affine", affine_forward, affine_backward, normals(171, (4, 2, 3), (6, 5), (5,)),
            wrong("dx without the weights' transpose", "dout @ w.T", "dout @ np.resize(w, w.T.shape)", "transposed",
                  "reshaped", "wrong factor"),
            wrong("bias averaged", "dout.sum(axis=0)", "dout.mean(axis=0)", "summed axis", "factor")),
    foreign("bias, broadcast", bias_forward, bias_backward, normals(174, (2, 3, 4), (4,)),
            wrong("first sequence alone", "dy.sum(axis=(0, 1))", "dy[0].sum(axis=0)", "summed axis", "not accumulated",
                  "wrong place")),
    foreign("outer sum", outer_add_forward, outer_add_backward, normals(176, (3,), (3,)),
            wrong("axes exchanged", "return d.sum(axis=1), d.sum(axis=0)", "return d.sum(axis=0), d.sum(axis=1)",
                  "swapped outputs", "summed axis", "transposed")),
    foreign("scale and shift by broadcasting", scale_shift_forward, scale_shift_backward,
            normals(178, (3, 2, 4), (3,), (2, 4)),
            wrong("x left out", "dy * x, axis", "dy, axis", "missing factor")),
    foreign("pad", pad_forward, pad_backward, normal(181, 3, 4),
            wrong("from the first row", "dy[1 : 1 + shape[0], ", "dy[: shape[0], ", "reshaped", "wrong place")),
    foreign("pad, reflecting", reflect_pad_forward, reflect_pad_backward, normal(182, 2, 5),
            wrong("reflections dropped at the end", "dx[:, -p - 1 : -1] += dy[:, -p:][:, ::-1]", "pass", "missing term",
                  "not accumulated", "wrong place"),
            wrong("not turned", "dy[:, :p][:, ::-1]", "dy[:, :p]", "reshaped", "wrong place")),
    foreign("roll", shift_forward, shift_backward, normal(183, 3, 5),
            wrong("the same way again", "-by", "by", "sign", "reshaped", "wrong place"),
            options={"by": 3}),
    foreign("concatenate", concat_forward, concat_backward, normals(184, (2, 3), (2, 2), (2, 2)),
            wrong("last part from the front", "dy[:, na + nb :]", "dy[:, nb : nb + nb]", "wrong place", "reshaped")),
    foreign("stack and split", stack_split_forward, stack_split_backward, normals(187, (3, 4), (3, 4)),
            wrong("halves exchanged", "np.concatenate(douts, axis=2)", "np.concatenate(douts[::-1], axis=2)",
                  "swapped outputs", "reshaped", "wrong place")),
    foreign("slice with a step", every_other_forward, every_other_backward, normal(189, 3, 6),
            wrong("off by one", "dx[:, 1::2]", "dx[:, ::2]", "wrong place", "reshaped")),
    foreign("repeat", upsample_forward, upsample_backward, normal(190, 2, 4),
            wrong("as tiles", "(dy.shape[0], -1, k).sum(axis=2)", "(dy.shape[0], k, -1).sum(axis=1)", "reshaped",
                  "summed axis")),
    foreign("tile", tile_forward, tile_backward, normal(191, 2, 4),
            wrong("averaged", ".sum(axis=1)", ".mean(axis=1)", "summed axis", "factor")),
    foreign("split heads", split_heads_forward, split_heads_backward, normal(192, 2, 3, 4),
            wrong("reshaped where transposed", "dy.transpose(0, 2, 1, 3).reshape", "dy.reshape", "reshaped",
                  "transposed")),
    foreign("patches", patchify_forward, patchify_backward, normal(193, 2, 4, 4),
            wrong("axes not moved back", ".swapaxes(2, 3)", "", "reshaped", "transposed")),
    foreign("lower triangle", tril_mask_forward, tril_mask_backward, normal(194, 4, 4),
            wrong("upper triangle", "np.tril", "np.triu", "wrong branch", "transposed", "wrong place")),
    foreign("residual, tied weights", residual_forward, residual_backward, normals(195, (4, 3), (3, 5)),
            wrong("one use of two", " + dy.T @ h", "", "missing term", "not accumulated"),
            wrong("skip forgotten", "return dy + dh @ w.T", "return dh @ w.T", "missing term")),
)  # fmt: skip
