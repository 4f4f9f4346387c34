"""Pooling and convolutions."""

import numpy as np

from benchmarks.foreign.pair import apart, foreign, normal, normals, wrong


def maxpool1d_forward(x, k=2):
    B, L = x.shape
    w = x.reshape(B, L // k, k)
    arg = w.argmax(axis=2)
    return w.max(axis=2), (arg, x.shape, k)


def maxpool1d_backward(dy, cache):
    arg, shape, k = cache
    dx = np.zeros(shape, dtype=dy.dtype)
    b, o = np.indices(arg.shape)
    dx[b, o * k + arg] = dy
    return dx


def maxpool2d_forward(x, size=2, stride=1):
    N, C, H, W = x.shape
    Ho, Wo = (H - size) // stride + 1, (W - size) // stride + 1
    y = np.zeros((N, C, Ho, Wo), dtype=x.dtype)
    for i in range(Ho):
        for j in range(Wo):
            win = x[:, :, i * stride : i * stride + size, j * stride : j * stride + size]
            y[:, :, i, j] = win.max(axis=(2, 3))
    return y, (x, size, stride)


def maxpool2d_backward(dout, cache):
    x, size, stride = cache
    dx = np.zeros_like(x)
    for i in range(dout.shape[2]):
        for j in range(dout.shape[3]):
            si, sj = slice(i * stride, i * stride + size), slice(j * stride, j * stride + size)
            win = x[:, :, si, sj]
            best = win == win.max(axis=(2, 3), keepdims=True)
            dx[:, :, si, sj] += best * dout[:, :, i, j][:, :, None, None]
    return dx


def avgpool2d_forward(x, k=2):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // k, k, w // k, k).mean(axis=(3, 5)), k


def avgpool2d_backward(dy, k):
    return np.repeat(np.repeat(dy, k, axis=2), k, axis=3) / (k * k)


def global_avg_pool_forward(x):
    return x.mean(axis=(2, 3)), x.shape


def global_avg_pool_backward(dy, shape):
    area = shape[2] * shape[3]
    return np.broadcast_to(dy[:, :, None, None] / area, shape)


def convolution_forward(x, w, b, pad=1):
    xp = np.pad(x, ((0, 0), (0, 0), (pad, pad)))
    K = w.shape[2]
    L = xp.shape[2] - K + 1
    cols = np.stack([xp[:, :, k : k + L] for k in range(K)], axis=2)
    y = np.einsum("bikl,oik->bol", cols, w) + b[:, None]
    return y, (cols, w, xp.shape, pad)


def convolution_backward(dy, cache):
    cols, w, shape, pad = cache
    dw = np.einsum("bol,bikl->oik", dy, cols)
    dcols = np.einsum("bol,oik->bikl", dy, w)
    dxp = np.zeros(shape, dtype=dy.dtype)
    L = dy.shape[2]
    for k in range(w.shape[2]):
        dxp[:, :, k : k + L] += dcols[:, :, k]
    return dxp[:, :, pad:-pad], dw, dy.sum(axis=(0, 2))


def causal_conv_forward(x, kernel):
    T, K = x.shape[0], len(kernel)
    padded = np.concatenate([np.zeros(K - 1, dtype=x.dtype), x])
    y = np.array([padded[t : t + K] @ kernel[::-1] for t in range(T)])
    return y, (padded, kernel)


def causal_conv_backward(dy, cache):
    padded, kernel = cache
    T, K = len(dy), len(kernel)
    dker = np.zeros_like(kernel)
    dpad = np.zeros_like(padded)
    for t in range(T):
        dker += dy[t] * padded[t : t + K][::-1]
        dpad[t : t + K] += dy[t] * kernel[::-1]
    return dpad[K - 1 :], dker


def im2col(x, kh, kw):
    n, c, h, w = x.shape
    oh, ow = h - kh + 1, w - kw + 1
    cols = np.empty((n, c, kh, kw, oh, ow), dtype=x.dtype)
    for i in range(kh):
        for j in range(kw):
            cols[:, :, i, j] = x[:, :, i : i + oh, j : j + ow]
    return cols.transpose(0, 4, 5, 1, 2, 3).reshape(n * oh * ow, -1)


def conv2d_forward(x, W, b):
    n, _, h, w = x.shape
    f, _, kh, kw = W.shape
    cols = im2col(x, kh, kw)
    out = cols @ W.reshape(f, -1).T + b
    return out.reshape(n, h - kh + 1, w - kw + 1, f).transpose(0, 3, 1, 2), (cols, W, x.shape)


def conv2d_backward(dout, cache):
    cols, W, (n, c, h, w) = cache
    f, _, kh, kw = W.shape
    oh, ow = h - kh + 1, w - kw + 1
    flat = dout.transpose(0, 2, 3, 1).reshape(-1, f)
    dW = (flat.T @ cols).reshape(W.shape)
    dcols = (flat @ W.reshape(f, -1)).reshape(n, oh, ow, c, kh, kw)
    dx = np.zeros((n, c, h, w), dtype=dout.dtype)
    for i in range(kh):
        for j in range(kw):
            dx[:, :, i : i + oh, j : j + ow] += dcols[:, :, :, :, i, j].transpose(0, 3, 1, 2)
    return dx, dW, flat.sum(axis=0)


def depthwise_forward(x, k):
    C, H, W = x.shape
    _, kh, kw = k.shape
    y = np.zeros((C, H - kh + 1, W - kw + 1), dtype=x.dtype)
    for i in range(kh):
        for j in range(kw):
            y += k[:, i, j, None, None] * x[:, i : i + y.shape[1], j : j + y.shape[2]]
    return y, (x, k)


def depthwise_backward(dy, cache):
    x, k = cache
    dx, dk = np.zeros_like(x), np.zeros_like(k)
    h, w = dy.shape[1:]
    for i in range(k.shape[1]):
        for j in range(k.shape[2]):
            dk[:, i, j] = (dy * x[:, i : i + h, j : j + w]).sum(axis=(1, 2))
            dx[:, i : i + h, j : j + w] += k[:, i, j, None, None] * dy
    return dx, dk


def conv_transpose1d_forward(x, w, stride=2):
    B, _, L = x.shape
    _, out, K = w.shape
    y = np.zeros((B, out, (L - 1) * stride + K), dtype=x.dtype)
    for t in range(L):
        y[:, :, t * stride : t * stride + K] += np.einsum("bi,iok->bok", x[:, :, t], w)
    return y, (x, w, stride)


def conv_transpose1d_backward(dy, cache):
    x, w, stride = cache
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    K = w.shape[2]
    for t in range(x.shape[2]):
        piece = dy[:, :, t * stride : t * stride + K]
        dx[:, :, t] = np.einsum("bok,iok->bi", piece, w)
        dw += np.einsum("bi,bok->iok", x[:, :, t], piece)
    return dx, dw


PAIRS = (
    foreign("max pooling, 1-D", maxpool1d_forward, maxpool1d_backward, apart(131, 2, 6),
            wrong("first of each window", "o * k + arg", "o * k", "wrong place", "missing term")),
    foreign("max pooling, 2-D, overlapping", maxpool2d_forward, maxpool2d_backward, apart(132, 2, 2, 3, 4),
            wrong("assigned where windows overlap", "+= best *", "= best *", "not accumulated")),
    foreign("average pooling, 2-D", avgpool2d_forward, avgpool2d_backward, normal(133, 2, 2, 4, 4),
            wrong("divided by the side", "(k * k)", "k", "factor"),
            wrong("tiled", "np.repeat(np.repeat(dy, k, axis=2), k, axis=3)", "np.tile(dy, (1, 1, k, k))", "reshaped",
                  "wrong place")),
    foreign("global average pooling", global_avg_pool_forward, global_avg_pool_backward, normal(134, 2, 3, 2, 3),
            wrong("not divided", " / area", "", "factor", "summed axis")),
    foreign("convolution, 1-D", convolution_forward, convolution_backward, normals(135, (2, 3, 5), (4, 3, 3), (4,)),
            wrong("cut off by one", "[:, :, pad:-pad]", "[:, :, :-2 * pad]", "reshaped", "wrong place"),
            wrong("assigned where windows overlap", "+= dcols[:, :, k]", "= dcols[:, :, k]", "not accumulated")),
    foreign("causal convolution", causal_conv_forward, causal_conv_backward, normals(138, (6,), (3,)),
            wrong("kernel not flipped", "dy[t] * kernel[::-1]", "dy[t] * kernel", "reshaped", "transposed",
                  "wrong factor")),
    foreign("convolution, 2-D, im2col", conv2d_forward, conv2d_backward, normals(140, (2, 2, 4, 3), (3, 2, 2, 2), (3,)),
            wrong("reshaped where transposed", "dout.transpose(0, 2, 3, 1).reshape(-1, f)", "dout.reshape(-1, f)",
                  "reshaped", "transposed"),
            wrong("kernel's axes exchanged", "[:, :, :, :, i, j]", "[:, :, :, :, j, i]", "transposed")),
    foreign("depthwise convolution", depthwise_forward, depthwise_backward, normals(143, (2, 4, 4), (2, 2, 3)),
            wrong("kernel turned", "k[:, i, j, None, None] * dy", "k[:, -1 - i, -1 - j, None, None] * dy", "reshaped",
                  "transposed", "wrong factor")),
    foreign("transposed convolution", conv_transpose1d_forward, conv_transpose1d_backward,
            normals(145, (2, 3, 3), (3, 2, 3)),
            wrong("stride forgotten", "dy[:, :, t * stride : t * stride + K]", "dy[:, :, t : t + K]", "wrong place",
                  "reshaped", "missing factor"),
            wrong("the last step's kernel alone", "dw += ", "dw = ", "not accumulated")),
)  # fmt: skip
