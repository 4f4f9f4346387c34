"""Functions of a matrix, and linear solves."""

import math

import numpy as np

from benchmarks.foreign.pair import foreign, normal, normals, wrong


def inv_forward(A):
    Y = np.linalg.inv(A)
    return Y, Y


def inv_backward(dY, Y):
    return -Y.T @ dY @ Y.T


def solve_forward(A, b):
    x = np.linalg.solve(A, b)
    return x, (A, x)


def solve_backward(dx, cache):
    A, x = cache
    db = np.linalg.solve(A.T, dx)
    return -db @ x.T, db


def det_forward(A):
    d = np.linalg.det(A)
    return d, (A, d)


def det_backward(dd, cache):
    A, d = cache
    return dd * d * np.linalg.inv(A).T


def slogdet_forward(A):
    _, logdet = np.linalg.slogdet(A)
    return logdet, A


def slogdet_backward(dl, A):
    return dl * np.linalg.inv(A).T


def cholesky_forward(A):
    L = np.linalg.cholesky(A)
    return L, L


def cholesky_backward(dL, L):
    S = np.tril(L.T @ dL)
    S = S - 0.5 * np.diag(np.diag(S))
    Li = np.linalg.inv(L)
    G = Li.T @ S @ Li
    return 0.5 * (G + G.T)


def eigvalsh_forward(A):
    w, V = np.linalg.eigh(A)
    return w, V


def eigvalsh_backward(dw, V):
    return V * dw @ V.T


def tri_solve_forward(L, b):
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return x, (L, x)


def tri_solve_backward(dx, cache):
    L, x = cache
    low = np.tril(L)
    db = np.linalg.solve(low.T, dx)
    dL = -np.tril(np.outer(db, x))
    return dL, db


def expm_forward(A, terms=14):
    powers = [np.eye(len(A), dtype=A.dtype)]
    for k in range(1, terms):
        powers.append(powers[-1] @ A / k)
    return sum(powers), (A, terms)


def expm_backward(dY, cache):
    A, terms = cache
    pw = [np.eye(len(A), dtype=A.dtype)]
    for _ in range(terms):
        pw.append(pw[-1] @ A.T)
    dA = np.zeros_like(A)
    for n in range(1, terms):
        for i in range(n):
            dA += pw[i] @ dY @ pw[n - 1 - i] / math.factorial(n)
    return dA


def matrix_square_forward(A):
    return A @ A @ A, A


def matrix_square_backward(dY, A):
    T = A.T
    return dY @ T @ T + T @ dY @ T + T @ T @ dY


def ridge_forward(X, y, lam=0.5):
    A = X.T @ X + lam * np.eye(X.shape[1], dtype=X.dtype)
    w = np.linalg.solve(A, X.T @ y)
    return w, (X, y, A, w)


def ridge_backward(dw, cache):
    X, y, A, w = cache
    u = np.linalg.solve(A, dw)
    r = y - X @ w
    dX = np.outer(r, u) - np.outer(X @ u, w)
    return dX, X @ u


def gauss_logpdf_forward(x, mu, log_sigma):
    z = (x - mu) / np.exp(log_sigma)
    return -0.5 * z**2 - log_sigma - 0.5 * math.log(2 * math.pi), (z, log_sigma)


def gauss_logpdf_backward(dy, cache):
    z, log_sigma = cache
    dx = -dy * z / np.exp(log_sigma)
    return dx, -dx.sum(axis=0), (dy * (z**2 - 1)).sum(axis=0)


def well(seed, n):
    """A matrix far from singular."""
    return normal(seed, n, n) + 3 * np.eye(n)


def spd(seed, n):
    """A symmetric matrix with positive, different eigenvalues."""
    m = normal(seed, n, n)
    return m @ m.T + np.diag(np.arange(1.0, n + 1))


PAIRS = (
    foreign("inverse", inv_forward, inv_backward, well(271, 3),
            wrong("sign", "-Y.T @ dY", "Y.T @ dY", "sign"),
            wrong("not transposed", "-Y.T @ dY @ Y.T", "-Y @ dY @ Y", "transposed")),
    foreign("solve", solve_forward, solve_backward, (well(272, 3), normal(273, 3, 2)),
            wrong("not transposed", "np.linalg.solve(A.T, dx)", "np.linalg.solve(A, dx)", "transposed")),
    foreign("determinant", det_forward, det_backward, well(274, 3),
            wrong("not transposed", "np.linalg.inv(A).T", "np.linalg.inv(A)", "transposed"),
            wrong("determinant left out", "dd * d *", "dd *", "factor", "missing factor")),
    foreign("log-determinant", slogdet_forward, slogdet_backward, well(275, 3),
            wrong("matrix for its inverse", "np.linalg.inv(A).T", "A.T", "wrong factor")),
    foreign("Cholesky", cholesky_forward, cholesky_backward, spd(276, 3),
            wrong("diagonal not halved", "S = S - 0.5 * np.diag(np.diag(S))", "pass", "wrong place", "missing term"),
            check={"structure": "symmetric"}),
    foreign("eigenvalues", eigvalsh_forward, eigvalsh_backward, spd(277, 3),
            wrong("eigenvectors by rows", "V * dw @ V.T", "V.T * dw @ V", "transposed"),
            check={"structure": "symmetric"}),
    foreign("triangular solve", tri_solve_forward, tri_solve_backward, (well(278, 4), normal(279, 4)),
            wrong("whole matrix", "-np.tril(np.outer(db, x))", "-np.outer(db, x)", "wrong branch", "wrong place",
                  "missing factor")),
    foreign("matrix exponential, series", expm_forward, expm_backward, 0.4 * normal(280, 3, 3),
            wrong("as if it commuted", "pw[i] @ dY @ pw[n - 1 - i]", "dY @ pw[n - 1]", "transposed", "wrong place")),
    foreign("cube of a matrix", matrix_square_forward, matrix_square_backward, normal(281, 3, 3),
            wrong("middle forgotten", " + T @ dY @ T ", " ", "missing term")),
    foreign("ridge regression", ridge_forward, ridge_backward, normals(282, (5, 3), (5,)),
            wrong("normal matrix held constant", " - np.outer(X @ u, w)", "", "missing term")),
    foreign("Gaussian log-density", gauss_logpdf_forward, gauss_logpdf_backward, normals(284, (4, 3), (3,), (3,)),
            wrong("normaliser forgotten", "(z**2 - 1)", "z**2", "missing term"),
            wrong("deviation squared", "-dy * z / np.exp(log_sigma)", "-dy * z / np.exp(2 * log_sigma)", "wrong factor",
                  "missing factor")),
)  # fmt: skip
