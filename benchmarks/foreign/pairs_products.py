"""Products, norms and distances."""

import numpy as np

from benchmarks.foreign.pair import foreign, normal, normals, wrong


def matmul_forward(A, B):
    return A @ B, (A, B)


def matmul_backward(dC, cache):
    A, B = cache
    return dC @ B.T, A.T @ dC


def bmm_forward(a, b):
    return np.matmul(a, b), (a, b)


def bmm_backward(dy, cache):
    a, b = cache
    da = np.matmul(dy, np.transpose(b, (0, 2, 1)))
    db = np.matmul(np.transpose(a, (0, 2, 1)), dy)
    return da, db


def bilinear_form_forward(x, W, y):
    return np.einsum("bi,oij,bj->bo", x, W, y), (x, W, y)


def bilinear_form_backward(d, cache):
    x, W, y = cache
    dx = np.einsum("bo,oij,bj->bi", d, W, y)
    dW = np.einsum("bo,bi,bj->oij", d, x, y)
    dy = np.einsum("bo,oij,bi->bj", d, W, x)
    return dx, dW, dy


def outer_forward(u, v):
    return np.outer(u, v), (u, v)


def outer_backward(d, cache):
    u, v = cache
    return d @ v, d.T @ u


def kron_forward(a, b):
    return np.kron(a, b), (a, b)


def kron_backward(d, cache):
    a, b = cache
    d4 = d.reshape(a.shape[0], b.shape[0], a.shape[1], b.shape[1])
    da = np.einsum("ikjl,kl->ij", d4, b)
    db = np.einsum("ikjl,ij->kl", d4, a)
    return da, db


def trace_product_forward(a, b):
    return np.trace(a @ b), (a, b)


def trace_product_backward(dt, cache):
    a, b = cache
    return dt * b.T, dt * a.T


def gram_forward(x):
    return x.T @ x / len(x), x


def gram_backward(dg, x):
    return x @ (dg + dg.T) / len(x)


def quad_form_forward(x, A):
    return 0.5 * np.sum(x * (x @ A), axis=1), (x, A)


def quad_form_backward(dy, cache):
    x, A = cache
    dx = 0.5 * dy[:, None] * (x @ (A + A.T))
    dA = 0.5 * (dy[:, None] * x).T @ x
    return dx, dA


def lora_forward(x, W, A, B, alpha=4.0):
    scale = alpha / A.shape[1]
    xa = x @ A
    return x @ W + scale * (xa @ B), (x, W, A, B, xa, scale)


def lora_backward(dy, cache):
    x, W, A, B, xa, scale = cache
    dxa = scale * dy @ B.T
    dx = dy @ W.T + dxa @ A.T
    return dx, x.T @ dy, x.T @ dxa, scale * xa.T @ dy


def fro_norm_forward(A):
    n = np.linalg.norm(A)
    return n, (A, n)


def fro_norm_backward(dn, cache):
    A, n = cache
    return dn * A / n


def pnorm_forward(x, p=3):
    y = np.sum(np.abs(x) ** p, axis=-1) ** (1 / p)
    return y, (x, y, p)


def pnorm_backward(dy, cache):
    x, y, p = cache
    top = np.sign(x) * np.abs(x) ** (p - 1)
    return dy[:, None] * top / y[:, None] ** (p - 1)


def nuclear_forward(A):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    return s.sum(), (U, s, Vt)


def nuclear_backward(dy, cache):
    U, _, Vt = cache
    return dy * U @ Vt


def pairwise_sq_forward(x, y):
    d = (x**2).sum(1)[:, None] + (y**2).sum(1)[None] - 2 * x @ y.T
    return d, (x, y)


def pairwise_sq_backward(dd, cache):
    x, y = cache
    dx = 2 * x * dd.sum(axis=1, keepdims=True) - 2 * dd @ y
    dy = 2 * y * dd.sum(axis=0)[:, None] - 2 * dd.T @ x
    return dx, dy


def cdist_forward(a, b):
    diff = a[:, None, :] - b[None, :, :]
    dist = np.linalg.norm(diff, axis=-1)
    return dist, (diff, dist)


def cdist_backward(dy, cache):
    diff, dist = cache
    g = (dy / dist)[..., None] * diff
    return g.sum(axis=1), -g.sum(axis=0)


def rbf_forward(x, c, log_width):
    sq = np.sum((x[:, None] - c[None]) ** 2, axis=2)
    w = np.exp(log_width)
    k = np.exp(-sq * w)
    return k, (x, c, sq, w, k)


def rbf_backward(dk, cache):
    x, c, sq, w, k = cache
    e = dk * k
    diff = x[:, None] - c[None]
    g = (-2 * e * w)[..., None] * diff
    return g.sum(1), -g.sum(0), -(e * sq * w).sum(0)


PAIRS = (
    foreign("matrix product", matmul_forward, matmul_backward, normals(231, (3, 3), (3, 3)),
            wrong("dA without the transposition", "dC @ B.T", "dC @ B", "transposed"),
            wrong("dB's operands in the other order", "A.T @ dC", "dC @ A.T", "transposed"),
            wrong("dB transposed", "A.T @ dC", "(A.T @ dC).T", "transposed")),
    foreign("batched product", bmm_forward, bmm_backward, normals(233, (2, 3, 4), (2, 4, 2)),
            wrong("summed over the batch", "return da, db", "return da, db * 0 + db.sum(axis=0)", "summed axis")),
    foreign("bilinear form", bilinear_form_forward, bilinear_form_backward, normals(235, (3, 2), (4, 2, 2), (3, 2)),
            wrong("weights transposed", '"bo,oij,bi->bj"', '"bo,oji,bi->bj"', "transposed")),
    foreign("outer product", outer_forward, outer_backward, normals(238, (3,), (3,)),
            wrong("gradients exchanged", "return d @ v, d.T @ u", "return d.T @ u, d @ v", "swapped outputs")),
    foreign("Kronecker product", kron_forward, kron_backward, normals(240, (2, 3), (3, 2)),
            wrong("blocks for elements", "d.reshape(a.shape[0], b.shape[0], a.shape[1], b.shape[1])",
                  "d.reshape(b.shape[0], a.shape[0], a.shape[1], b.shape[1]).swapaxes(0, 1)", "reshaped",
                  "transposed")),
    foreign("trace of a product", trace_product_forward, trace_product_backward, normals(242, (3, 3), (3, 3)),
            wrong("not transposed", "dt * b.T", "dt * b", "transposed")),
    foreign("Gram matrix", gram_forward, gram_backward, normal(244, 4, 3),
            wrong("twice one side", "(dg + dg.T)", "(dg + dg)", "transposed", "wrong factor"),
            wrong("one use of two", "(dg + dg.T)", "dg", "missing term")),
    foreign("quadratic form", quad_form_forward, quad_form_backward, normals(245, (4, 3), (3, 3)),
            wrong("as if symmetric", "(A + A.T)", "(2 * A)", "transposed", "wrong factor")),
    foreign("low-rank adapter", lora_forward, lora_backward, normals(247, (4, 3), (3, 5), (3, 2), (2, 5)),
            wrong("scale forgotten", "scale * xa.T @ dy", "xa.T @ dy", "factor"),
            wrong("adapter forgotten in dx", " + dxa @ A.T", "", "missing term")),
    foreign("Frobenius norm", fro_norm_forward, fro_norm_backward, normal(251, 3, 4),
            wrong("norm squared", "A / n", "A / n**2", "factor", "wrong factor", "missing factor")),
    foreign("p-norm", pnorm_forward, pnorm_backward, normal(252, 3, 4),
            wrong("sign forgotten", "np.sign(x) * ", "", "sign", "missing factor")),
    foreign("nuclear norm", nuclear_forward, nuclear_backward, normal(253, 3, 4),
            wrong("singular values kept", "dy * U @ Vt", "dy * U * cache[1] @ Vt", "wrong factor")),
    foreign("squared distances", pairwise_sq_forward, pairwise_sq_backward, normals(254, (3, 2), (4, 2)),
            wrong("x's own term forgotten", "2 * x * dd.sum(axis=1, keepdims=True) - ", "- ", "missing term")),
    foreign("distances, np.linalg.norm", cdist_forward, cdist_backward, normals(256, (3, 2), (4, 2)),
            wrong("second one's sign", "-g.sum(axis=0)", "g.sum(axis=0)", "sign"),
            wrong("not divided by the distance", "(dy / dist)", "dy", "missing factor")),
    foreign("radial basis", rbf_forward, rbf_backward, normals(258, (3, 2), (4, 2), (4,)),
            wrong("width forgotten", "(-2 * e * w)", "(-2 * e)", "missing factor")),
)  # fmt: skip
