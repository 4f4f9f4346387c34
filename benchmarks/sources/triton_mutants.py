"""Ten mistakes in each Triton backward, of the kinds that people make: a text that occurs once becomes another."""

from benchmarks.foreign.pair import wrong

SOFTMAX = (
    wrong("no subtraction", "dx = y * (dy - inner)", "dx = y * dy", "missing term"),
    wrong("y left out", "dx = y * (dy - inner)", "dx = dy - inner", "missing factor"),
    wrong("sum of dy alone", "inner = tl.sum(dy * y, axis=0)", "inner = tl.sum(dy, axis=0)", "missing factor"),
    wrong("a sign", "dx = y * (dy - inner)", "dx = y * (dy + inner)", "sign", "extra term"),
    wrong(
        "a mean", "inner = tl.sum(dy * y, axis=0)", "inner = tl.sum(dy * y, axis=0) / n_cols", "factor", "summed axis"
    ),
    wrong("y(1 − y) of the diagonal", "dx = y * (dy - inner)", "dx = y * (1 - y) * dy", "missing term", "wrong factor"),
    wrong("y twice", "dx = y * (dy - inner)", "dx = y * y * (dy - inner)", "missing factor", "extra term", "factor"),
    wrong("inner inside", "dx = y * (dy - inner)", "dx = y * dy - inner", "missing factor", "wrong factor"),
    wrong(
        "the maximum", "inner = tl.sum(dy * y, axis=0)", "inner = tl.max(dy * y, axis=0)", "summed axis", "wrong branch"
    ),
    wrong("y² summed", "inner = tl.sum(dy * y, axis=0)", "inner = tl.sum(y * y, axis=0)", "wrong factor"),
)

LAYER_NORM = (
    wrong("no second mean", "dx = (wdy - (xhat * c1 + c2)) * rstd", "dx = (wdy - xhat * c1) * rstd", "missing term"),
    wrong("no first mean", "dx = (wdy - (xhat * c1 + c2)) * rstd", "dx = (wdy - c2) * rstd", "missing term"),
    wrong(
        "sums, no means",
        "c1 = tl.sum(xhat * wdy, axis=0) / N",
        "c1 = tl.sum(xhat * wdy, axis=0)",
        "factor",
        "summed axis",
    ),
    wrong("no rstd", "dx = (wdy - (xhat * c1 + c2)) * rstd", "dx = wdy - (xhat * c1 + c2)", "missing factor"),
    wrong("no weight", "wdy = tl.where(mask, w * dy, 0.0)", "wdy = tl.where(mask, dy, 0.0)", "missing factor"),
    wrong(
        "xhat not scaled",
        "xhat = tl.where(mask, (x - mean) * rstd, 0.0)",
        "xhat = tl.where(mask, x - mean, 0.0)",
        "missing factor",
    ),
    wrong(
        "x in place of xhat",
        "dw += dy * (x - mean[:, None]) * rstd[:, None]",
        "dw += dy * x * rstd[:, None]",
        "missing term",
    ),
    wrong(
        "dw not scaled",
        "dw += dy * (x - mean[:, None]) * rstd[:, None]",
        "dw += dy * (x - mean[:, None])",
        "missing factor",
    ),
    wrong("db of the last block", "        db += dy\n", "        db = dy\n", "not accumulated"),
    wrong("swapped", "return dx, dw, db", "return dx, db, dw", "swapped outputs"),
)

RMS_NORM = (
    wrong("no mean", "-(1 / n_cols) * rstd", "-rstd", "factor"),
    wrong("a sign", "(-(1 / n_cols) * rstd", "((1 / n_cols) * rstd", "sign"),
    wrong("rstd²", "rstd * rstd * tl.sum(m * x, axis=0) * x)", "rstd * tl.sum(m * x, axis=0) * x)", "missing factor"),
    wrong("no weight in the sum", "tl.sum(m * x, axis=0)", "tl.sum(dy * x, axis=0)", "missing factor", "wrong factor"),
    wrong("no weight", "m = dy * w", "m = dy", "missing factor"),
    wrong("dw not scaled", "dw += dy * (x * rstd)", "dw += dy * x", "missing factor"),
    wrong("dw of the last row", "dw += dy * (x * rstd)", "dw = dy * (x * rstd)", "not accumulated"),
    wrong(
        "no second term",
        "        dx += rstd * (-(1 / n_cols) * rstd * rstd * tl.sum(m * x, axis=0) * x)\n",
        "",
        "missing term",
    ),
    wrong("m in dw", "dw += dy * (x * rstd)", "dw += m * (x * rstd)", "wrong factor", "extra term"),
    wrong("mean over programs", "dw.sum(dim=0)", "dw.mean(dim=0)", "summed axis", "factor"),
)

L2_NORM = (
    wrong("no projection", "dx = (dy - y * dot) / norm", "dx = dy / norm", "missing term"),
    wrong("not divided", "dx = (dy - y * dot) / norm", "dx = dy - y * dot", "missing factor"),
    wrong("multiplied", "dx = (dy - y * dot) / norm", "dx = (dy - y * dot) * norm", "wrong factor"),
    wrong("a sign", "dx = (dy - y * dot) / norm", "dx = (dy + y * dot) / norm", "sign", "extra term"),
    wrong(
        "norm twice", "dx = (dy - y * dot) / norm", "dx = (dy - y * dot) / (norm * norm)", "factor", "missing factor"
    ),
    wrong("y left out", "dx = (dy - y * dot) / norm", "dx = (dy - dot) / norm", "missing factor"),
    wrong("dot of dy alone", "dot = tl.sum(y * dy, 0)", "dot = tl.sum(dy, 0)", "missing factor"),
    wrong("a mean", "dot = tl.sum(y * dy, 0)", "dot = tl.sum(y * dy, 0) / n_cols", "factor", "summed axis"),
    wrong("parentheses", "dx = (dy - y * dot) / norm", "dx = dy - y * dot / norm", "missing factor", "wrong factor"),
    wrong("dy projected on itself", "dx = (dy - y * dot) / norm", "dx = (dy - dy * dot) / norm", "wrong factor"),
)

GELU = (
    wrong("no inner slope", "0.5 * x * (1 - t * t) * d_inner", "0.5 * x * (1 - t * t)", "missing factor"),
    wrong("no factor 3", "(1 + 3 * 0.044715 * x * x)", "(1 + 0.044715 * x * x)", "factor", "wrong constant"),
    wrong("1 − t", "(1 - t * t) * d_inner", "(1 - t) * d_inner", "missing factor", "wrong factor"),
    wrong("a sign", "(1 - t * t) * d_inner", "(1 + t * t) * d_inner", "sign", "extra term"),
    wrong(
        "no second half",
        "slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * d_inner",
        "slope = 0.5 * (1 + t)",
        "missing term",
    ),
    wrong("no first half", "slope = 0.5 * (1 + t) + 0.5 * x", "slope = 0.5 * x", "missing term"),
    wrong("no x", "0.5 * x * (1 - t * t)", "0.5 * (1 - t * t)", "missing factor"),
    wrong("digits exchanged", "(1 + 3 * 0.044715 * x * x)", "(1 + 3 * 0.044175 * x * x)", "wrong constant"),
    wrong("no half", "slope = 0.5 * (1 + t) +", "slope = (1 + t) +", "factor", "missing factor"),
    wrong("dy left out", "dx_ptr + offsets, dy * slope", "dx_ptr + offsets, slope", "missing factor"),
)

SWIGLU = (
    wrong(
        "a's part without b", "(silu_a * (1 - sig_a) + sig_a) * b", "(silu_a * (1 - sig_a) + sig_a)", "missing factor"
    ),
    wrong("no sigmoid added", "(silu_a * (1 - sig_a) + sig_a)", "(silu_a * (1 - sig_a))", "missing term"),
    wrong(
        "sig in place of silu",
        "silu_a * (1 - sig_a) + sig_a",
        "sig_a * (1 - sig_a) + sig_a",
        "wrong factor",
        "missing factor",
    ),
    wrong("db with the sigmoid", "db = dc * silu_a", "db = dc * sig_a", "wrong factor", "missing factor"),
    wrong("swapped", "return da, db", "return db, da", "swapped outputs"),
    wrong("a sign", "silu_a * (1 - sig_a) + sig_a", "silu_a * (1 + sig_a) + sig_a", "sign", "extra term"),
    wrong("no 1 − σ", "silu_a * (1 - sig_a) + sig_a", "silu_a + sig_a", "missing factor"),
    wrong("db without dc", "db = dc * silu_a", "db = silu_a", "missing factor"),
    wrong(
        "da stored twice",
        "tl.store(db_ptr + start + cols, db, mask=mask)",
        "tl.store(db_ptr + start + cols, da, mask=mask)",
        "wrong factor",
    ),
    wrong("σ subtracted", "(silu_a * (1 - sig_a) + sig_a)", "(silu_a * (1 - sig_a) - sig_a)", "sign"),
)

TANH_GATE = (
    wrong("1 − g", "d_gate * (1 - gate * gate)", "d_gate * (1 - gate)", "missing factor", "wrong factor"),
    wrong("no slope", "d_gate * (1 - gate * gate))", "d_gate)", "missing factor"),
    wrong("dh without the gate", "dh_ptr + offsets, gate * dy", "dh_ptr + offsets, dy", "missing factor"),
    wrong("not accumulated", "tl.atomic_add(dalpha_ptr,", "tl.store(dalpha_ptr,", "not accumulated"),
    wrong("dy squared", "d_gate = tl.sum(dy * h, axis=0)", "d_gate = tl.sum(dy * dy, axis=0)", "wrong factor"),
    wrong("h left out", "d_gate = tl.sum(dy * h, axis=0)", "d_gate = tl.sum(dy, axis=0)", "missing factor"),
    wrong("a sign", "(1 - gate * gate)", "(1 + gate * gate)", "sign", "extra term"),
    wrong("gate on dx", "return dy, dh, dalpha", "return dh, dh, dalpha", "wrong factor", "extra term"),
    wrong("swapped", "return dy, dh, dalpha", "return dh, dy, dalpha", "swapped outputs"),
    wrong(
        "2 / BLOCK",
        "d_gate = tl.sum(dy * h, axis=0)",
        "d_gate = tl.sum(dy * h, axis=0) / BLOCK",
        "factor",
        "summed axis",
    ),
)

ROTATION = (
    wrong("forward's rotation", "first * cos + second * sin", "first * cos - second * sin", "sign"),
    wrong("a sign", "half + cols, second * cos - first * sin", "half + cols, second * cos + first * sin", "sign"),
    wrong("cos and sin exchanged", "first * cos + second * sin", "first * sin + second * cos", "wrong factor"),
    wrong("no second term", "first * cos + second * sin", "first * cos", "missing term"),
    wrong("no cos", "half + cols, second * cos - first * sin", "half + cols, second - first * sin", "missing factor"),
    wrong(
        "halves exchanged",
        "half + cols, second * cos - first * sin",
        "half + cols, first * cos - second * sin",
        "wrong factor",
        "wrong place",
    ),
    wrong(
        "not the backward",
        "_rotate[(dy.shape[0],)](dy, cos, sin, dx, half, True,",
        "_rotate[(dy.shape[0],)](dy, cos, sin, dx, half, False,",
        "wrong branch",
        "sign",
    ),
    wrong("sin of the first", "second * cos - first * sin", "second * cos - first * cos", "wrong factor"),
    wrong(
        "cos in place of sin",
        "_rotate[(dy.shape[0],)](dy, cos, sin, dx,",
        "_rotate[(dy.shape[0],)](dy, cos, cos, dx,",
        "wrong factor",
    ),
    wrong("dy itself", "return dx, None, None", "return dy, None, None", "missing factor", "wrong factor"),
)

HUBER = (
    wrong("no mean", "grad = dloss * slope / n_cols", "grad = dloss * slope", "factor"),
    wrong("no dloss", "grad = dloss * slope / n_cols", "grad = slope / n_cols", "missing factor"),
    wrong(
        "no sign",
        "slope = tl.where(tl.abs(r) <= delta, r, outside)",
        "slope = tl.where(tl.abs(r) <= delta, r, delta)",
        "wrong branch",
        "wrong factor",
    ),
    wrong("branches exchanged", "tl.abs(r) <= delta, r, outside", "tl.abs(r) <= delta, outside, r", "wrong branch"),
    wrong("a half", "tl.abs(r) <= delta, r, outside", "tl.abs(r) <= delta, 0.5 * r, outside", "factor"),
    wrong(
        "t's sign",
        "tl.store(dt_ptr + row * n_cols + cols, -grad",
        "tl.store(dt_ptr + row * n_cols + cols, grad",
        "sign",
    ),
    wrong(
        "the sign's sign", "tl.where(r > 0, delta, -delta)", "tl.where(r < 0, delta, -delta)", "sign", "wrong branch"
    ),
    wrong(
        "no delta",
        "tl.where(r > 0, delta, -delta)",
        "tl.where(r > 0, 1.0, -1.0)",
        "factor",
        "wrong constant",
        "missing factor",
    ),
    wrong("no branch", "slope = tl.where(tl.abs(r) <= delta, r, outside)", "slope = r", "wrong branch"),
    wrong("swapped", "return dx, dt, None", "return dt, dx, None", "swapped outputs", "sign"),
)

CROSS_ENTROPY = (
    wrong(
        "no label",
        "probs = tl.where(cols == label, probs - 1.0, probs)",
        "probs = tl.where(mask, probs, 0.0)",
        "missing term",
        "wrong branch",
    ),
    wrong("added", "cols == label, probs - 1.0, probs", "cols == label, probs + 1.0, probs", "sign"),
    wrong(
        "everywhere but there", "cols == label, probs - 1.0, probs", "cols != label, probs - 1.0, probs", "wrong branch"
    ),
    wrong(
        "ignored rows have gradients",
        "scale = tl.where(label != ignore, dloss, 0.0)",
        "scale = dloss",
        "wrong branch",
        "missing factor",
    ),
    wrong(
        "no dloss",
        "scale = tl.where(label != ignore, dloss, 0.0)",
        "scale = tl.where(label != ignore, 1.0, 0.0)",
        "missing factor",
        "wrong factor",
        "wrong branch",
    ),
    wrong(
        "no lse", "probs = tl.exp(logits - lse)", "probs = tl.exp(logits)", "missing term", "missing factor", "factor"
    ),
    wrong("divided by the columns", "probs * scale, mask=mask", "probs * scale / n_cols, mask=mask", "factor"),
    wrong("scale inside", "probs - 1.0, probs)", "probs - dloss, probs)", "wrong factor", "wrong constant"),
    wrong("logits stored", "probs * scale, mask=mask", "logits * scale, mask=mask", "wrong factor"),
    wrong("lse added", "probs = tl.exp(logits - lse)", "probs = tl.exp(logits + lse)", "sign"),
)
