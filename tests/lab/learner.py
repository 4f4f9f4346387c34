"""A learner's files and their grades; right answers, in other words than npformer's, to be put into the templates.

The shapes are those of the templates; softmax has a forward of its own, which takes no complex numbers. The last two
layers have no words of their own: they only call parts, as the first one does, and the reference answers for them.
"""

import inspect

import numpy as np
import pytest

from npformer.lab.grader import EXERCISES, Limits, find, grade_file, report
from npformer.lab.grader.parts import FUNCTIONS
from npformer.lab.grader.templates import pair_source, template

merge_heads, split_heads = FUNCTIONS["merge_heads"], FUNCTIONS["split_heads"]


def each(names, table):
    """A test for each entry of a table, which is named by its key."""
    return pytest.mark.parametrize(names, table.values(), ids=table.keys())


each_exercise = each("exercise", {exercise.name: exercise for exercise in EXERCISES})


def graded(folder, text, name="mine", seconds=120.0):
    """The grade of a file with one exercise."""
    path = folder / f"{name}.py"
    path.write_text(text)
    (found,) = grade_file(path, limits=Limits(seconds))
    return found


def said(found, level=1):
    """The report on a grade, in one line."""
    return " ".join(report.report(found, level, "npformer grade mine.py").split())


def answered(name, folder):
    """The file of an exercise as this learner leaves it in a folder."""
    path = folder / f"{name}.py"
    own = [globals()[each] for each in (f"{name}_forward", f"{name}_backward") if each in globals()]
    given = template(find(name)).partition(f"def {own[0].__name__}(")[0] if own else pair_source(find(name))
    path.write_text(given + "\n\n".join(map(inspect.getsource, own)))
    return path


def linear_backward(dy, cache):
    x, weight = cache
    dx = np.einsum("...o,io->...i", dy, weight)
    dweight = sum(np.outer(x[n], dy[n]) for n in np.ndindex(x.shape[:-1]))
    dbias = np.einsum("no->o", dy.reshape(-1, dy.shape[-1]))
    return dx, dweight, dbias


def relu_backward(dy, cache):
    return dy * cache


def gelu_backward(dy, cache):
    x, phi_below = cache
    slope = phi_below + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return dy * slope


def softmax_forward(x, visible=None):
    mask = np.broadcast_to(True if visible is None else visible, x.shape)
    y = np.zeros(x.shape)
    for row in np.ndindex(x.shape[:-1]):
        seen = mask[row]
        if seen.any():
            powers = np.exp(x[row][seen] - abs(x[row][seen]).max())
            y[row][seen] = powers / powers.sum()
    return y, {"weights": y}


def softmax_backward(dy, cache):
    y = cache["weights"]
    dx = y * dy
    return dx - y * dx.sum(axis=-1, keepdims=True)


def dropout_backward(dy, cache):
    keep, scale = cache
    return dy * keep * scale


def embedding_backward(dy, cache):
    tokens, num_rows, scale = cache
    dtable = np.zeros((num_rows, dy.shape[-1]))
    for token, gradient in zip(tokens.ravel(), dy.reshape(-1, dy.shape[-1]), strict=True):
        dtable[token] += scale * gradient
    return dtable


def learned_positions_backward(dy, cache):
    offset, num_rows = cache
    dtable = np.zeros((num_rows, dy.shape[2]))
    for sequence in dy:
        dtable[offset : offset + len(sequence)] += sequence
    return dy.copy(), dtable


def layer_norm_backward(dy, cache):
    x_hat, r, gamma = cache
    width = dy.shape[-1]
    dx_hat = dy * gamma
    shift = dx_hat.sum(axis=-1, keepdims=True)
    stretch = (dx_hat * x_hat).sum(axis=-1, keepdims=True)
    dx = r / width * (width * dx_hat - shift - x_hat * stretch)
    return dx, (dy * x_hat).reshape(-1, width).sum(axis=0), dy.reshape(-1, width).sum(axis=0)


def residual_backward(dy, cache):
    return [dy, dropout_backward(dy, cache)]


def post_norm_backward(dy, cache):
    residual_cache, norm_cache = cache
    through_norm, dgamma, dbeta = layer_norm_backward(dy, norm_cache)
    return (*residual_backward(through_norm, residual_cache), dgamma, dbeta)


def add_norm_backward(dy, cache):
    residual_cache, norm_cache = cache
    stream, dnormed = dy
    branch, dgamma, dbeta = layer_norm_backward(dnormed, norm_cache)
    dx, df = residual_backward(branch + stream, residual_cache)
    return dx, df, dgamma, dbeta


def feed_forward_backward(dy, cache):
    up, relu, dropout, down = cache
    d, dw2, db2 = linear_backward(dy, down)
    d = relu_backward(dropout_backward(d, dropout), relu)
    dx, dw1, db1 = linear_backward(d, up)
    return dx, dw1, db1, dw2, db2


def cross_entropy_backward(dloss, cache):
    p, q, counted, num_counted = cache
    return dloss * (p - q) / num_counted * counted


def attention_backward(dout, cache):
    q, k, v, weights, dropout = cache
    scale = q.shape[-1] ** -0.5
    dv = np.einsum("bhts,bhtd->bhsd", dropout_backward(weights, dropout), dout)
    dweights = dropout_backward(np.einsum("bhtd,bhsd->bhts", dout, v), dropout)
    dscores = scale * weights * (dweights - (dweights * weights).sum(-1, keepdims=True))
    return np.einsum("bhts,bhsd->bhtd", dscores, k), np.einsum("bhts,bhtd->bhsd", dscores, q), dv


def multi_head_attention_backward(dy, cache):
    q_cache, k_cache, v_cache, attention_cache, o_cache, num_heads = cache
    dparams = {}
    d, dparams["wo"], dparams["bo"] = linear_backward(dy, o_cache)
    dq, dk, dv = attention_backward(split_heads(d, num_heads), attention_cache)
    dx, dparams["wq"], dparams["bq"] = linear_backward(merge_heads(dq), q_cache)
    dmemory, dparams["wk"], dparams["bk"] = linear_backward(merge_heads(dk), k_cache)
    from_values, dparams["wv"], dparams["bv"] = linear_backward(merge_heads(dv), v_cache)
    return dx, dmemory + from_values, dparams


def encoder_layer_post_backward(dy, cache):
    attention_cache, norm1_cache, ff_cache, norm2_cache = cache
    g = {"norm1": {}, "norm2": {}}
    dx1, df, g["norm2"]["gamma"], g["norm2"]["beta"] = post_norm_backward(dy, norm2_cache)
    dff, *weights = feed_forward_backward(df, ff_cache)
    g["feed_forward"] = dict(zip(("w1", "b1", "w2", "b2"), weights, strict=True))
    dx, df, g["norm1"]["gamma"], g["norm1"]["beta"] = post_norm_backward(dx1 + dff, norm1_cache)
    as_query, as_memory, g["attention"] = multi_head_attention_backward(df, attention_cache)
    return dx + as_query + as_memory, g
